"""Invariants of the cluster's objects and the leader's ledger, whatever happens (docs/spec/vm.md).

They are checked after every write of ours and every step. Other modules of this package hold the checks. A breach ends
the history.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.testing.vm.invariants.freed_capacity import FreedRoom, Stand
from situate.testing.vm.invariants.ledgers import LedgersSeen
from situate.testing.vm.invariants.migrations import MovesSeen
from situate.testing.vm.invariants.nodes import NodesSeen
from situate.testing.vm.invariants.objects import (
    AT_WORK,
    FROZEN,
    Obj,
    amounts,
    divided,
    name_of,
    note,
    owner_of,
    phase,
    total_of,
)
from situate.testing.vm.invariants.usage import Counting
from situate.testing.vm.world.agents import Agents
from situate.testing.vm.world.history_world import Place, kind_of
from situate.testing.vm.world.processes import MIGRATION_TABLE, UNIT
from situate.vm.api.well_known import APPROVED, CLAIM, CLAIM_CLOSED, REQUESTED
from situate.vm.model.resource_amounts import Amounts

STRANDED_S: Final = 10.0
_NOTHING: Final = Amounts.zero()
_LAST: Final = 25


class Breach(Exception):
    """An invariant does not hold."""


class Watchdog:
    """The watchdog of one history."""

    def __init__(self, place: Place, happened: Counter[str]) -> None:
        self._place = place
        self._happened = happened
        self.agents = Agents(place, happened, self.breach)
        self.writes = 0
        self._found: str | None = None
        self._digest = hashlib.sha256()
        self._told: deque[str] = deque(maxlen=_LAST)
        self._frozen: dict[str, float] = {}
        self._stranded: dict[str, float] = {}
        self._freed = FreedRoom(self.breach, happened)
        self.counting = Counting(place, self.agents)
        self.nodes = NodesSeen(place, self.counting, self.breach)
        self.ledgers = LedgersSeen(place, self.counting, self.breach)
        self.moves = MovesSeen(place, self.counting, self.nodes, self._freed, self._frozen, happened, self.breach)
        place.told.append(self._hear)
        place.begun.append(self.ledgers.begun)
        place.applied.append(self.ledgers.applied)

    def dropped(self, migration: Obj) -> None:
        """Record that a user deletes a migration or its VM (F9, F12). A new leader cannot know its beneficiary then."""
        if text := note(migration, CLAIM):
            self._freed.given_up(str(json.loads(text)["id"]))

    def breach(self, what: str) -> None:
        """Record a breach. The first one counts."""
        if self._found is None:
            self._found = f"{self._place.now:.3f} s: {what}"

    def check(self) -> None:
        """Check all invariants. Raises `Breach`."""
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

    def look(self) -> None:
        machines = self.counting.machines()
        self.nodes.look(machines)
        self.nodes.press(machines)
        self._stranded_ones(machines)
        self.ledgers.look(machines)
        self._freed_room(machines)

    def _stranded_ones(self, machines: Mapping[str, Obj]) -> None:
        """Check I6."""
        now = self._place.now
        busy = {each["spec"]["vmName"] for each in self.counting.table(MIGRATION_TABLE) if phase(each) in AT_WORK}
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
                self.breach(
                    f"I6: {name} is {phase(machine)} since {STRANDED_S:g} s, but no migration of it is in progress"
                )

    def _freed_room(self, machines: Mapping[str, Obj]) -> None:
        """Check I4."""
        now = self._place.now
        pods = {each["metadata"]["uid"]: each for each in self.counting.table("pods")}
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
            return sum((self.counting.approved_of(each, machines) for each in here), _NOTHING)

        def total(node: str) -> Amounts | None:
            there = self._place.object("nodes", "", node)
            return None if there is None else total_of(there)

        def disturbed_at(node: str) -> float:
            return max((at for at, _ in self.nodes.facts.get(node, ())), default=float("-inf"))

        for each in self.counting.table(MIGRATION_TABLE):
            notes = each["metadata"].get("annotations") or {}
            source = (each.get("status") or {}).get("sourcePodName")
            if CLAIM not in notes:
                continue
            if phase(each) == "Succeeded" and source not in names:
                self._freed.seen(notes[CLAIM], stand, booked, now)
            elif source in names:
                self._freed.awaited(notes[CLAIM], stand)
        self._freed.look(stand, booked, total, disturbed_at, now)

    def _hear(self, request: Request, answer: Response | Watch, identity: Identity) -> None:
        kind = kind_of(request)
        if not kind or not isinstance(answer, Response):
            return
        self.writes += 1
        self.note(f"{identity.user} {request.method} {request.path} {request.body[:400].decode()} -> {answer.status}")
        if answer.status >= 300:
            return
        if kind == "migration":
            self.moves.move_begins(json.loads(answer.body))
        elif kind == "approval":
            self.moves.approved(json.loads(answer.body))
        elif kind == "binding":
            self.moves.bound(request.path.split("/")[-2])
        elif kind == "cancel":
            self._happened["cancelled"] += 1
            self.moves.cancelled(identity.user, *request.path.split("/")[-3::2])
        self.look()

    def unfinished(self) -> str | None:
        """Return why the cluster is not as it should be some time after the last fault (I5, I6), or None."""
        leader = self._place.leader()
        if leader is None or not leader.controller.ledger.state.started:
            return "no process leads"
        machines, now = self.counting.machines(), self._place.now
        for name, machine in machines.items():
            if phase(machine) not in ("Running", "Scaling", "Pending", ""):
                return f"{name} is {phase(machine)}"
        for each in self.counting.table(MIGRATION_TABLE):
            if phase(each) in AT_WORK:
                return f"migration {name_of(each)} is {phase(each) or 'new'}"
        state = leader.controller.ledger.state
        if state.claims:
            return f"I5: claims {sorted(state.claims)} are open"
        for agent in self.agents.by_name.values():
            waiting = now - agent.answered_at > 3 * self.agents.tick_s
            if agent.name in machines and phase(machines[agent.name]) == "Running" and waiting:
                return f"I5: {agent.name} has no answer"
        return None
