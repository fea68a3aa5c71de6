"""What must hold of the cluster's objects and the leader's ledger, whatever happens (section 5 of the reference).

Looked at after every write of ours and every step. What counts as used is what a machine uses or its agent was
permitted, which shares nothing with the ledger but the objects. A breach ends the history.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Final

from situate.cluster.effects import Identity
from situate.cluster.watch import Watch
from situate.objects.messages import Request, Response
from situate.testing.vm.agents import Agents, milli, used_by_spec
from situate.testing.vm.freed import FreedRoom, Stand
from situate.testing.vm.place import SPARE, Place, kind_of
from situate.testing.vm.reading import (
    AT_WORK,
    FROZEN,
    Obj,
    amounts,
    beneficiary_kind,
    divided,
    in_bytes,
    is_target,
    name_of,
    note,
    owner_of,
    phase,
    total_of,
)
from situate.testing.vm.shipped import MACHINE_TABLE, MIGRATION_TABLE, UNIT, VmMember
from situate.vm.amounts import Amounts
from situate.vm.model import Role
from situate.vm.names import (
    APPROVED,
    CLAIM,
    CLAIM_CLOSED,
    CREATED_BY_SCHEDULER_LABEL,
    DRAIN,
    EVACUATE,
    REQUESTED,
    TARGET_NODE,
)

FACT_S: Final = 60.0
"""So long after a fact that we cannot refuse, what was decided before it was known may still be done (I13, B8)."""
STRANDED_S: Final = 10.0
LATE_S: Final = 20.0
"""What is decided of an object may be so late: watches, writes and answers are."""
REASON_S: Final = 40.0
"""So long after its reason has gone a move may still begin: leaders are paused, and watches and writes late."""
_NOTHING: Final = Amounts.zero()
_LAST: Final = 25


class Breach(Exception):
    """An invariant does not hold."""


class Watchdog:
    """Of one history."""

    def __init__(self, place: Place, happened: Counter[str]) -> None:
        self._place = place
        self._happened = happened
        self.agents = Agents(place, happened, self.breach)
        self.writes = 0
        self.created = 0
        """Migrations of ours."""
        self.full: dict[str, Amounts] = {}
        """Excess of each node as it was last."""
        self._found: str | None = None
        self._digest = hashlib.sha256()
        self._told: deque[str] = deque(maxlen=_LAST)
        self._facts: dict[str, list[tuple[float, Amounts]]] = {}
        self._claims: dict[str, tuple[str, str]] = {}
        """By id: uid of the migration, and of the beneficiary's pod."""
        self._closed: dict[str, str] = {}
        """By id of a claim the machine that used it."""
        self._frozen: dict[str, float] = {}
        self._stranded: dict[str, float] = {}
        self._pressed: dict[str, float] = {}
        """When somebody had last a reason to leave a node."""
        self._lately: deque[tuple[float, dict[str, Amounts]]] = deque(maxlen=200)
        self._leaving: dict[str, dict[str, Amounts]] = {}
        """By identity of a process: what its ledger books for those that are frozen, by uid of the pod that is left."""
        self._freed = FreedRoom(self.breach, happened)
        place.told.append(self._hear)
        place.begun.append(self._begun)
        place.applied.append(self._applied)

    # what a history says

    def fact(self, node: str, amount: Amounts) -> None:
        """Others have taken so much of the node, and nobody could refuse it."""
        self._facts.setdefault(node, []).append((self._place.now, amount))

    def dropped(self, migration: Obj) -> None:
        """Somebody deletes it: whoever begins to lead after that cannot know for whom its room was freed (F12)."""
        if text := note(migration, CLAIM):
            self._freed.given_up(str(json.loads(text)["id"]))

    def breach(self, what: str) -> None:
        """The first one counts."""
        if self._found is None:
            self._found = f"{self._place.now:.3f} s: {what}"

    def check(self) -> None:
        """Raises `Breach`."""
        self.look()
        if self._found is not None:
            raise Breach(self._found)

    def last(self) -> list[str]:
        return list(self._told)

    def story(self) -> str:
        return self._digest.hexdigest()

    def note(self, line: str) -> None:
        said = f"{self._place.now:.3f} {line}"
        self._digest.update(said.encode())
        self._told.append(said)

    # what there is

    def table(self, name: str) -> Iterator[Obj]:
        return self._place.objects(name)

    def machines(self) -> dict[str, Obj]:
        return {each["metadata"]["name"]: each for each in self.table(MACHINE_TABLE)}

    def permitted(self, machine: Obj) -> Amounts:
        """What it uses, or may use by what its agent was told."""
        status = machine.get("status") or {}
        use = used_by_spec(machine)
        if status.get("cpus") is not None and status.get("memorySize") is not None:
            use = use.most(Amounts.of(milli(status["cpus"]), in_bytes(str(status["memorySize"]))))
        agent = self.agents.by_name.get(machine["metadata"]["name"])
        acts = agent is not None and agent.uid == machine["metadata"]["uid"] and agent.pod == status.get("podName")
        return use.most(agent.permit) if agent is not None and acts else use

    def counted(self, pod: Obj, machines: Mapping[str, Obj]) -> Amounts:
        """Of the pod's node; zero of one that has ended, or that its machine has left."""
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return _NOTHING
        name = owner_of(pod)
        if not name:
            asked = [each.get("resources", {}).get("requests", {}) for each in pod["spec"]["containers"]]
            cpus = sum(milli(each.get("cpu", 0)) for each in asked)
            return Amounts.of(cpus, sum(in_bytes(str(each.get("memory", 0))) for each in asked))
        machine = machines.get(name)
        if machine is None:
            return _NOTHING
        status = machine.get("status") or {}
        if status.get("podName") != name_of(pod) and (phase(machine) not in FROZEN or not is_target(pod)):
            return _NOTHING
        return divided(self.permitted(machine), machine)

    def sums(self, machines: Mapping[str, Obj]) -> dict[str, Amounts]:
        """By node; what pods of an ignored namespace hold is nobody's to count (C28)."""
        found: dict[str, Amounts] = {}
        for pod in self.table("pods"):
            node = pod["spec"].get("nodeName", "")
            if node and pod["metadata"]["namespace"] != SPARE:
                found[node] = found.get(node, _NOTHING) + self.counted(pod, machines)
        return found

    def _demand(self, machines: Mapping[str, Obj]) -> dict[str, Amounts]:
        """By node, with all that is asked for there, and all that may be on its way there: as much as is booked."""
        found: dict[str, Amounts] = {}
        anywhere = _NOTHING
        for pod in self.table("pods"):
            if pod["metadata"]["namespace"] == SPARE:
                continue
            if node := pod["spec"].get("nodeName", ""):
                found[node] = found.get(node, _NOTHING) + self._asked_for(pod, machines)
            else:
                anywhere += self._asked_for(pod, machines)
        for each in self.table(MIGRATION_TABLE):
            mover, target = machines.get(each["spec"]["vmName"]), note(each, TARGET_NODE)
            if mover is not None and target:
                found[target] = found.get(target, _NOTHING) + self._most(mover)
        return {node: amount + anywhere for node, amount in found.items()}

    def _asked_for(self, pod: Obj, machines: Mapping[str, Obj]) -> Amounts:
        machine = machines.get(owner_of(pod))
        return self.counted(pod, machines) if machine is None else self._most(machine)

    def _most(self, machine: Obj) -> Amounts:
        """What it uses, may use or asks for, as it counts on a node."""
        most = self.permitted(machine)
        for text in (note(machine, APPROVED), note(machine, REQUESTED)):
            most = most.most(amounts(text)) if text else most
        return divided(most, machine)

    # the invariants

    def look(self) -> None:
        machines = self.machines()
        self._overbooked(machines)
        self._press(machines)
        self._stranded_ones(machines)
        self._booked(machines)
        self._freed_room(machines)

    def _overbooked(self, machines: Mapping[str, Obj]) -> None:
        """I1: over its Total, or further over it, comes no node but by as much as others have taken of it.

        Whenever that was: what was granted before is perhaps used long after.
        """
        sums, now = self.sums(machines), self._place.now
        self._lately.append((now, sums))
        for node in self.table("nodes"):
            name = node["metadata"]["name"]
            excess = (sums.get(name, _NOTHING) - total_of(node)).positive()
            grown = (excess - self.full.get(name, _NOTHING)).positive()
            self.full[name] = excess
            if not grown:
                continue
            allowed = sum((amount for _, amount in self._facts.get(name, ())), _NOTHING)
            if excess.exceeds(allowed):
                self.breach(f"I1: node {name} is over its total by {excess.values}, {grown.values} more than before")

    def _press(self, machines: Mapping[str, Obj]) -> None:
        """Notes which nodes somebody has a reason to leave (I9)."""
        demand = self._demand(machines)
        for node in self.table("nodes"):
            name = name_of(node)
            if DRAIN in (node["metadata"].get("annotations") or {}) or demand.get(name, _NOTHING).exceeds(
                self._watermark(node)
            ):
                self._pressed[name] = self._place.now
        for machine in machines.values():
            if text := note(machine, EVACUATE):
                runner = (machine.get("status") or {}).get("podName", "")
                pod = self._place.object("pods", machine["metadata"]["namespace"], runner)
                name = str(json.loads(text)["node"])
                if pod is not None and pod["spec"].get("nodeName") == name:
                    self._pressed[name] = self._place.now

    def _watermark(self, node: Obj) -> Amounts:
        fraction = self._place.setup.rules.watermark
        return Amounts(tuple(int(each * fraction) for each in total_of(node)))

    def _begun(self, member: VmMember) -> None:
        """I8: whoever begins to lead has booked what was granted before, by all that it can know."""
        state, watched = member.controller.ledger.state, member.controller.watched
        for machine in self.table(MACHINE_TABLE):
            known = watched.machines.store.get(name_of(machine), machine["metadata"]["namespace"])
            granted, runner = note(machine, APPROVED), (machine.get("status") or {}).get("podName", "")
            pod = self._place.object("pods", machine["metadata"]["namespace"], runner)
            if known is None or pod is None or not granted:
                continue
            booked, newest = state.pod(pod["metadata"]["uid"]), machine["metadata"]["resourceVersion"]
            if booked is None or known.metadata.resource_version != newest:
                continue
            if amounts(granted).exceeds(booked.reserved):
                was = amounts(granted).values
                self.breach(f"I8: {name_of(machine)} was granted {was}, and a restart books {booked.reserved.values}")

    def _applied(self, member: VmMember) -> None:
        """I14: what is booked for a frozen machine stays, unless it is seen to use or to hold more."""
        state, watched = member.controller.ledger.state, member.controller.watched
        before, leaving = self._leaving.get(member.identity, {}), {}
        for move in state.moves.values():
            pod = state.pod(move.source.uid)
            if pod is None or pod.machine is None or not pod.frozen or pod.machine.role is Role.TARGET:
                continue
            leaving[pod.uid] = pod.reserved
            known = before.get(pod.uid, pod.reserved)
            if known == pod.reserved:
                continue
            machine = watched.machines.store.get(pod.machine.ref.name, pod.machine.ref.namespace)
            text = "" if machine is None else machine.metadata.annotations.get(APPROVED, "")
            seen = pod.used.most(amounts(text)) if text else pod.used
            if known.exceeds(pod.reserved) or pod.reserved.exceeds(known.most(seen)):
                name = pod.machine.ref.name
                self.breach(f"I14: {name} is frozen, and went from {known.values} to {pod.reserved.values}")
        self._leaving[member.identity] = leaving

    def booked(self) -> dict[str, Amounts] | None:
        """By uid of each pod, in the ledger of whoever leads and has taken all in; None: nobody."""
        leader = self._place.leader()
        if leader is None or leader.controller.actuator is None or not leader.controller.ledger.state.started:
            return None
        nodes = leader.controller.ledger.state.nodes.values()
        return {uid: pod.reserved for node in nodes for uid, pod in node.pods.items()}

    def _stranded_ones(self, machines: Mapping[str, Obj]) -> None:
        """I6."""
        now = self._place.now
        busy = {each["spec"]["vmName"] for each in self.table(MIGRATION_TABLE) if phase(each) in AT_WORK}
        for name, machine in machines.items():
            uid = machine["metadata"]["uid"]
            if phase(machine) not in FROZEN:
                self._frozen.pop(uid, None)
                self._stranded.pop(uid, None)
                continue
            self._frozen.setdefault(uid, now)
            if name in busy:
                self._stranded.pop(uid, None)
            elif now - self._stranded.setdefault(uid, now) > STRANDED_S:
                self.breach(f"I6: {name} is {phase(machine)} since {STRANDED_S:g} s, and no migration of it is at work")

    def _booked(self, machines: Mapping[str, Obj]) -> None:
        """I2 and I8: whoever leads has booked what machines use, and what agents were told that they may use."""
        leader = self._place.leader()
        if leader is None or not leader.controller.ledger.state.started:
            return
        state = leader.controller.ledger.state
        for pod in self.table("pods"):
            machine = machines.get(owner_of(pod))
            booked = state.pod(pod["metadata"]["uid"])
            if machine is None or booked is None or (machine.get("status") or {}).get("podName") != name_of(pod):
                continue
            may = self.permitted(machine)
            if may.exceeds(booked.reserved):
                self.breach(f"I2: {name_of(machine)} may use {may.values}, and {booked.reserved.values} are booked")

    def _freed_room(self, machines: Mapping[str, Obj]) -> None:
        """I4."""
        now = self._place.now
        pods = {each["metadata"]["uid"]: each for each in self.table("pods")}
        names = {name_of(each) for each in pods.values()}

        def stand(uid: str) -> Stand | None:
            machine = machines.get(owner_of(pods[uid])) if uid in pods else None
            if machine is None or phase(machine) not in ("Running", "Scaling"):
                return None
            notes = machine["metadata"].get("annotations") or {}
            if machine["status"].get("podName") != name_of(pods[uid]) or not {APPROVED, REQUESTED} <= set(notes):
                return None
            said = [divided(amounts(notes[key]), machine) for key in (APPROVED, REQUESTED)]
            return Stand(said[0], said[1], divided(UNIT, machine), notes.get(CLAIM_CLOSED, ""))

        def booked(node: str, but: str) -> Amounts:
            here = [each for uid, each in pods.items() if uid != but and each["spec"].get("nodeName") == node]
            return sum((self._approved_of(each, machines) for each in here), _NOTHING)

        def total(node: str) -> Amounts | None:
            there = self._place.object("nodes", "", node)
            return None if there is None else total_of(there)

        def disturbed_at(node: str) -> float:
            return max((at for at, _ in self._facts.get(node, ())), default=float("-inf"))

        for each in self.table(MIGRATION_TABLE):
            notes = each["metadata"].get("annotations") or {}
            source = (each.get("status") or {}).get("sourcePodName")
            if CLAIM in notes and phase(each) == "Succeeded" and source not in names:
                self._freed.seen(notes[CLAIM], stand, booked, now)
        self._freed.look(stand, booked, total, disturbed_at, now)

    def _approved_of(self, pod: Obj, machines: Mapping[str, Obj]) -> Amounts:
        """What a pod uses or may use, or is approved for its machine, as it counts on its node."""
        counted, machine = self.counted(pod, machines), machines.get(owner_of(pod))
        text = ((machine or {}).get("metadata", {}).get("annotations") or {}).get(APPROVED)
        return counted if machine is None or text is None else counted.most(divided(amounts(text), machine))

    def _hear(self, request: Request, answer: Response | Watch, identity: Identity) -> None:
        kind = kind_of(request)
        if not kind or not isinstance(answer, Response):
            return
        self.writes += 1
        self.note(f"{identity.user} {request.method} {request.path} {request.body[:400].decode()} -> {answer.status}")
        if answer.status >= 300:
            return
        if kind == "migration":
            self._move_begins(json.loads(answer.body))
        elif kind == "approval":
            self._approved(json.loads(answer.body))
        elif kind == "binding":
            self._bound(request.path.split("/")[-2])
        elif kind == "cancel":
            self._happened["cancelled"] += 1
            self._cancelled(identity.user, *request.path.split("/")[-3::2])
        self.look()

    def _move_begins(self, migration: Obj) -> None:
        """I3, I12, I13, B1, B2."""
        meta = migration["metadata"]
        notes, name, self.created = meta.get("annotations") or {}, meta["name"], self.created + 1
        machines = self.machines()
        machine = machines.get(migration["spec"]["vmName"])
        target = notes.get(TARGET_NODE, "")
        if not target:
            self.breach(f"B12: {name} was created without a target node")
        if machine is None:
            return
        pod = self._place.object("pods", meta["namespace"], machine["status"].get("podName", ""))
        now = self._place.now
        node = "" if pod is None else pod["spec"].get("nodeName", "")
        self._happened["moved"] += 1
        self._press(machines)
        chained = beneficiary_kind(migration) == "Target"
        if node and not chained and now - self._pressed.get(node, float("-inf")) > REASON_S:
            self.breach(f"I9: {name} leaves {node}, and nobody needs its room since {REASON_S:g} s")
        if pod is not None and name == f"schedplugin-{name_of(pod)}":
            if target == node:
                self.breach(f"I12: {name} leads to the node {node} that it leaves")
            if CLAIM in notes:
                self._claimed(migration, json.loads(notes[CLAIM]), pod)
        self._above_watermark(migration, machine, target, machines)

    def _cancelled(self, process: str, namespace: str, name: str) -> None:
        """Whoever cancels a move that has succeeded, and cannot know of that yet, has closed its claim (F2)."""
        known = next(
            (
                found.content
                for member in self._place.members
                if member.identity == process
                and (found := member.controller.watched.migrations.store.get(name, namespace)) is not None
            ),
            None,
        )
        if known is not None and phase(known) in AT_WORK and (text := note(known, CLAIM)):
            self._freed.given_up(str(json.loads(text)["id"]))

    def _claimed(self, migration: Obj, claim: Obj, source: Obj) -> None:
        """I3."""
        self._happened["claimed"] += 1
        name, uid = name_of(migration), source["metadata"]["uid"]
        if claim["id"] in self._claims:
            self.breach(f"I3: claim {claim['id']} of {name} was another migration's")
        self._claims[claim["id"]] = (migration["metadata"]["uid"], claim["beneficiary"]["uid"])
        if claim["beneficiary"]["uid"] == uid:
            self.breach(f"I3: claim {claim['id']} makes room for the one who leaves, {name_of(source)}")
        if claim["source"]["podUID"] != uid:
            self.breach(f"I3: claim {claim['id']} is on another source than {name} moves")
        if claim["node"] != source["spec"].get("nodeName", ""):
            self.breach(f"I3: claim {claim['id']} is on {claim['node']}, and its source on another node")

    def _above_watermark(self, migration: Obj, machine: Obj, target: str, machines: Mapping[str, Obj]) -> None:
        """I13, unless a fact of the last while is to blame. Who grew there since it was decided may fill the node."""
        now = self._place.now
        there = self._place.object("nodes", "", target)
        if there is None or any(at >= now - FACT_S for at, _ in self._facts.get(target, ())):
            return
        coming = divided(self.permitted(machine), machine)
        for other in self.table(MIGRATION_TABLE):
            mover = machines.get(other["spec"]["vmName"])
            if mover is None or other["metadata"]["uid"] == migration["metadata"]["uid"] or phase(other) not in AT_WORK:
                continue
            arrived = self._is_bound((other.get("status") or {}).get("targetPodName", ""))
            if (other["metadata"].get("annotations") or {}).get(TARGET_NODE) == target and not arrived:
                coming += divided(self.permitted(mover), mover)
        lately = [sums.get(target, _NOTHING) for at, sums in self._lately if at >= now - LATE_S]
        filled = reduce(Amounts.least, lately, self.sums(machines).get(target, _NOTHING)) + coming
        watermark = self._watermark(there)
        if filled.exceeds(watermark):
            self.breach(f"I13: {name_of(migration)} brings {target} to {filled.values} of {watermark.values}")

    def _is_bound(self, pod: str) -> bool:
        return any(name_of(each) == pod and each["spec"].get("nodeName") for each in self.table("pods"))

    def _approved(self, machine: Obj) -> None:
        """I3 and I14."""
        meta, now = machine["metadata"], self._place.now
        since = self._frozen.get(meta["uid"])
        if phase(machine) in FROZEN and since is not None and now - since > LATE_S:
            self.breach(f"I14: {meta['name']} is {phase(machine)} since {now - since:g} s, and was approved something")
        closed = (meta.get("annotations") or {}).get(CLAIM_CLOSED)
        if closed:
            first = closed not in self._closed
            self._happened["claim closed"] += first
            user = self._closed.setdefault(closed, meta["uid"])
            if user != meta["uid"]:
                self.breach(f"I3: claim {closed} was used twice, now by {meta['name']}")
            _, beneficiary = self._claims.get(closed, ("", ""))
            runner = (machine.get("status") or {}).get("podName")
            owners = {name_of(each) for each in self.table("pods") if each["metadata"]["uid"] == beneficiary}
            if first and owners and runner not in owners:
                self.breach(f"I3: claim {closed} was used for {meta['name']}, and was another's")

    def _bound(self, name: str) -> None:
        """I12: of a target, and B14."""
        for migration in self.table(MIGRATION_TABLE):
            status = migration.get("status") or {}
            if status.get("targetPodName") != name or phase(migration) not in AT_WORK:
                continue
            pods = {name_of(each): each["spec"].get("nodeName", "") for each in self.table("pods")}
            node = pods.get(name, "")
            if node and node == pods.get(status.get("sourcePodName", ""), ""):
                self.breach(f"I12: {name} is bound to {node}, which it is to leave")
            labels = migration["metadata"].get("labels") or {}
            reserved = (migration["metadata"].get("annotations") or {}).get(TARGET_NODE)
            if labels.get(CREATED_BY_SCHEDULER_LABEL) == "true" and reserved != node:
                self._happened["target chosen anew"] += 1

    # the end

    def unfinished(self) -> str | None:
        """What is not as it should be some time after the last fault (I5, I6); None: all is well."""
        leader = self._place.leader()
        if leader is None or not leader.controller.ledger.state.started:
            return "nobody leads"
        machines, now = self.machines(), self._place.now
        for name, machine in machines.items():
            if phase(machine) not in ("Running", "Scaling", "Pending", ""):
                return f"{name} is {phase(machine)}"
        for each in self.table(MIGRATION_TABLE):
            if phase(each) in AT_WORK:
                return f"migration {name_of(each)} is {phase(each) or 'new'}"
        state = leader.controller.ledger.state
        if state.claims:
            return f"I5: claims {sorted(state.claims)} are open"
        for agent in self.agents.by_name.values():
            waiting = now - agent.answered_at > 3 * self.agents.tick_s
            if agent.name in machines and phase(machines[agent.name]) == "Running" and waiting:
                return f"I5: {agent.name} is not answered"
        return None
