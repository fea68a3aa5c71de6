"""Makes the steps of a history happen: what users, clouds, networks and other systems do to a cluster."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, assert_never

import msgspec

from situate.cluster.effects import Identity
from situate.cluster.watch import Watch
from situate.objects.messages import Request, Response
from situate.sim.timeline import Due
from situate.spot.model import ALLOW_RESTART, CAPACITY_LABEL, MIX, ON_DEMAND
from situate.spot.names import CERTIFICATES
from situate.testing.network import CALM, Weather
from situate.testing.processes import ProcessState
from situate.testing.spot import history as steps
from situate.testing.spot.history import ON_DEMAND_NODES, SPOT_NODES, WORKLOADS, AnyStep, ProcessStep, WorkloadPlan
from situate.testing.spot.invariants import Watchdog
from situate.testing.spot.recorder import OwnerRow
from situate.testing.spot.webhooks import CLEAR, Passage
from situate.testing.spot.world import CONFIGURATIONS, OURS, OWN_PODS, SHOP, SpotMember, SpotWorld

ON_DEMAND_PODS: Final = 14
"""Room of a node, so that a workload may need several."""
SPOT_PODS: Final = 8
WITHIN_S: Final = 30.0
"""A leader that is to be killed at a message is left alone if there is none for so long."""
RECONNECTED_S: Final = 60.0
"""After watches were cut or the server was down, until processes may be relied on to see what is."""

_PODS: Final = f"/api/v1/namespaces/{SHOP}/pods"
_KINDS: Final = {"Deployment": "deployments", "StatefulSet": "statefulsets"}
_BUDGETS: Final = f"/apis/policy/v1/namespaces/{SHOP}/poddisruptionbudgets"
_VALIDATING: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_QUOTA, _MEDDLER = "https://quota.example.com", "https://meddler.example.com"
_STORMS: Final = {
    "request lost": Weather(lose_request=0.3),
    "answer lost": Weather(lose_answer=0.3),
    "refused": Weather(refuse=0.5),
    "conflict": Weather(conflict=0.5),
    "late events": Weather(event_delay_s=1.0, event_jitter_s=1.0),
    "blind": Weather(lose_answer=0.3, event_delay_s=2.0),
}
_TROUBLES: Final = {
    "lost": Passage(lose_question=0.3),
    "answer lost": Passage(lose_answer=0.3),
    "repeated": Passage(repeat=0.5),
    "reordered": Passage(latency_s=(0.001, 0.8)),
    "all": Passage((0.001, 0.5), 0.1, 0.1, 0.3),
}
_DOOMED: Final = {
    "taint": ("aws-node-termination-handler/spot-itn", 120.0),
    "short taint": ("cloud.google.com/impending-node-termination", 30.0),
}
_AT_RISK: Final = "aws-node-termination-handler/rebalance-recommendation"
_FULL: Final = "test/full"


class Performer:
    """`perform` does what a step says; what is impossible at the moment is left out."""

    def __init__(self, world: SpotWorld, watchdog: Watchdog, happened: Counter[str]) -> None:
        self._world = world
        self._watchdog = watchdog
        self._recorder = watchdog.recorder
        self._happened = happened
        self._made = Counter[str]()
        self._versions: dict[str, int] = {}
        self._creations = 0
        self._ends: list[Due] = []  # machines that are going to end
        self._wave_at = float("-inf")

    def add_nodes(self, capacity: str, count: int) -> None:
        prefix, pods = ("od", ON_DEMAND_PODS) if capacity == "on-demand" else ("spot", SPOT_PODS)
        for _ in range(count):
            number = self._made[prefix]
            self._made[prefix] += 1
            self._world.add_node(f"{prefix}-{number}", capacity, pods=pods, zone=f"zone-{number % 2}")

    def create(self, plan: WorkloadPlan) -> None:
        self._world.make(_collection(plan), workload(plan))

    def perform(self, step: AnyStep) -> None:
        world = self._world
        match step:
            case steps.Scale(workload=number, replicas=replicas):
                self._user_writes(number, {"spec": {"replicas": min(replicas, _most(number))}})
            case steps.SetPolicy(workload=number, policy=policy) | steps.SpoilPolicy(workload=number, policy=policy):
                value = policy if policy or isinstance(step, steps.SpoilPolicy) else None
                self._user_writes(number, {"metadata": {"annotations": {ON_DEMAND: value}}})
            case steps.RollOut(workload=number, version=version):
                self._roll_out(number, version)
            case steps.Pause(workload=number, on=on):
                if WORKLOADS[number].kind == "Deployment":
                    self._user_writes(number, {"spec": {"paused": on}})
            case steps.OptOut(workload=number, on=on):
                self._user_writes(number, {"metadata": {"annotations": {MIX: "disabled" if on else None}}})
            case steps.Recreate(workload=number):
                self._recreate(WORKLOADS[number])
            case steps.DeletePod(pod=number):
                self._with_pod(number, lambda name: world.call("DELETE", f"{_PODS}/{name}"))
            case steps.UnreadyPod(pod=number, on=on):
                self._with_pod(number, partial(self._annotate, key="unready", on=on))
            case steps.StickPod(pod=number):
                self._with_pod(number, self._stick)
            case steps.Guard(workload=number, on=on):
                self._guard(WORKLOADS[number].name, on)
            case steps.Notice():
                self._notice(step)
            case steps.EndNode(node=number, silent=silent):
                self._with_spot(number, partial(self._end_node, silent=silent))
            case steps.Wave(notice=notice, silent=silent):
                self._wave(notice, silent)
            case steps.AtRisk(node=number):
                self._with_spot(number, lambda name: self._taint(name, _AT_RISK))
            case steps.AddSpot(count=count):
                self.add_nodes("spot", min(count, max(0, SPOT_NODES - len(self._spot()))))
            case steps.Cordon(node=number):
                self._with_node(number, partial(self._set_node, spec={"unschedulable": True}))
            case steps.LoseLabel(node=number, swapped=swapped):
                self._with_node(number, partial(self._lose_label, swapped=swapped))
            case steps.Fill(capacity=capacity):
                self._happened[f"Fill {capacity}"] += 1
                for name, node in self._nodes().items():
                    if capacity in ("both", node):
                        self._taint(name, _FULL)
            case steps.RestoreNodes():
                self.restore_nodes()
            case _:
                self._to_processes(step)

    def heal(self) -> None:
        """Everything that users, clouds and others did to keep workloads from their ends is undone."""
        world = self._world
        for member in world.members:
            self._wake(member)
        world.closed_until = world.now
        for each in self._ends:
            each.cancel()
        for name in list(self._recorder.nodes):
            if name.startswith(("spot", "od")) and not world.cluster.machinery.kubelets.works(name):
                world.call("DELETE", f"/api/v1/nodes/{name}")
        for machine, _ in enumerate(OWN_PODS):
            world.set_clock(machine, 0.0)
        self.restore_nodes()
        self.add_nodes("spot", SPOT_NODES - len(self._spot()))
        self.add_nodes("on-demand", ON_DEMAND_NODES - len(self._on_demand()))
        self._refuse_creations(0)
        self._meddle("")
        for number, plan in enumerate(WORKLOADS):
            self._guard(plan.name, False)
            owner = self._owner(plan)
            annotations: dict[str, Any] = {MIX: None, ALLOW_RESTART: "true"}
            if owner is not None and not owner.can_be_read:
                annotations[ON_DEMAND] = plan.policy or None
            spec = {"paused": False} if plan.kind == "Deployment" else {}
            self._user_writes(number, {"metadata": {"annotations": annotations}, "spec": spec})
        for pod in list(self._recorder.pods.values()):
            if pod.held:
                self._annotate(pod.name, "unready", on=False)
                self._annotate(pod.name, "hold", on=False)

    def restore_nodes(self) -> None:
        """Of those whose machines run."""
        self._watchdog.disturbed()
        for name in list(self._recorder.nodes):
            kind = "spot" if name.startswith("spot") else "on-demand" if name.startswith("od") else ""
            if not kind or not self._world.cluster.machinery.kubelets.works(name):
                continue
            labels = {CAPACITY_LABEL: kind}
            self._call_node(name, {"metadata": {"labels": labels}, "spec": {"unschedulable": None, "taints": None}})
            self._condition(name, "PreemptionScheduled", "False", "")

    # What users do.

    def _owner(self, plan: WorkloadPlan) -> OwnerRow | None:
        return next((each for each in self._recorder.owners.values() if each.name == plan.name), None)

    def _user_writes(self, number: int, change: dict[str, Any]) -> None:
        plan = WORKLOADS[number]
        owner = self._owner(plan)
        if owner is not None:
            self._watchdog.disturbed(owner.uid)
        self._world.call("PATCH", f"{_collection(plan)}/{plan.name}", change, patch=True)

    def _roll_out(self, number: int, version: int) -> None:
        name = WORKLOADS[number].name
        before = self._versions.get(name, 0)
        self._versions[name] = max(before, version)
        self._happened["rollback"] += version < before
        annotations = {"version": str(version)}
        self._user_writes(number, {"spec": {"template": {"metadata": {"annotations": annotations}}}})

    def _recreate(self, plan: WorkloadPlan) -> None:
        self._world.call("DELETE", f"{_collection(plan)}/{plan.name}")
        answer = self._world.call("POST", _collection(plan), workload(plan))
        if answer["kind"] == "Status":  # still on its way out
            self._happened["Recreate too soon"] += 1

    def _with_pod(self, number: int, do: Callable[[str], object]) -> None:
        pods = sorted(pod.name for pod in self._recorder.pods.values())
        if not pods:
            return
        name = pods[number % len(pods)]
        row = self._recorder.named(name)
        if row is not None:
            self._watchdog.disturbed(self._recorder.owner_of(row))
            do(name)

    def _annotate(self, name: str, key: str, *, on: bool) -> None:
        change = {"metadata": {"annotations": {key: "true" if on else None}}}
        self._world.call("PATCH", f"{_PODS}/{name}", change, patch=True)

    def _stick(self, name: str) -> None:
        self._annotate(name, "hold", on=True)
        self._world.call("DELETE", f"{_PODS}/{name}")

    def _guard(self, name: str, on: bool) -> None:
        if not on:
            self._world.call("DELETE", f"{_BUDGETS}/{name}")
            return
        budget = {"metadata": {"name": name}, "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": name}}}}
        self._world.call("POST", _BUDGETS, budget)

    # What clouds do.

    def _nodes(self) -> dict[str, str]:
        """Those whose machines run, and of which kind they are, whatever their labels say."""
        works = self._world.cluster.machinery.kubelets.works
        kinds = {"spot": "spot", "od": "on-demand"}
        return {
            name: kinds[name.partition("-")[0]]
            for name in sorted(self._recorder.nodes, key=lambda each: (not each.startswith("spot"), each))
            if name.partition("-")[0] in kinds and works(name)
        }

    def _spot(self) -> list[str]:
        return [name for name, kind in self._nodes().items() if kind == "spot"]

    def _on_demand(self) -> list[str]:
        return [name for name, kind in self._nodes().items() if kind == "on-demand"]

    def _with_spot(self, number: int, do: Callable[[str], object]) -> None:
        if spot := self._spot():
            do(spot[number % len(spot)])

    def _with_node(self, number: int, do: Callable[[str], object]) -> None:
        if nodes := list(self._nodes()):
            self._watchdog.disturbed()
            do(nodes[number % len(nodes)])

    def _call_node(self, name: str, change: dict[str, Any]) -> None:
        self._world.call("PATCH", f"/api/v1/nodes/{name}", change, patch=True)

    def _set_node(self, name: str, spec: dict[str, Any]) -> None:
        self._call_node(name, {"spec": spec})

    def _taint(self, name: str, key: str, effect: str = "NoSchedule") -> None:
        row = self._recorder.nodes[name]
        if all(taint["key"] != key for taint in row.taints):
            self._set_node(name, {"taints": [*row.taints, {"key": key, "effect": effect}]})

    def _condition(self, name: str, kind: str, status: str, message: str) -> None:
        stored = self._world.cluster.api.store.get("nodes", "", name)
        assert stored is not None
        present = stored.object().get("status", {}).get("conditions") or []
        others = [each for each in present if each["type"] != kind]
        if status == "False" and len(others) == len(present):
            return
        at = self._world.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
        new = {"type": kind, "status": status, "reason": "Test", "message": message, "lastTransitionTime": at}
        change = {"status": {"conditions": others if status == "False" else [*others, new]}}
        self._world.call("PATCH", f"/api/v1/nodes/{name}/status", change, patch=True)

    def _lose_label(self, name: str, *, swapped: bool) -> None:
        self._happened["LoseLabel swapped"] += swapped
        other = "on-demand" if name.startswith("spot") else "spot"
        self._call_node(name, {"metadata": {"labels": {CAPACITY_LABEL: other if swapped else None}}})

    def _notice(self, step: steps.Notice) -> None:
        spot = self._spot()
        if not spot:
            return
        name = spot[step.node % len(spot)]
        self._taken_for_on_demand(name)
        self._happened[f"Notice {step.by}"] += 1
        if step.by in _DOOMED:
            key, said_s = _DOOMED[step.by]
            self._taint(name, key)
        else:
            said_s = 60.0 if step.by == "condition" else -600.0
            at = self._world.wall().astimezone(UTC) + timedelta(seconds=said_s)
            self._condition(name, "PreemptionScheduled", "True", f"Preempt Scheduled: {_rfc1123(at)}")
        if step.ends is None:
            self._happened["notice without end"] += 1
            return
        self._happened["end before the deadline"] += step.ends < said_s
        self._end_later(step.ends, name, silent=step.silent)

    def _end_later(self, seconds: float, name: str, *, silent: bool) -> None:
        self._ends.append(self._world.timeline.after(seconds, partial(self._end_node, name, silent=silent)))

    def _taken_for_on_demand(self, name: str) -> None:
        """A floor that stands on a spot node, for its label says otherwise, goes with it."""
        if self._recorder.nodes[name].capacity == "on-demand":
            self._watchdog.disturbed()

    def _end_node(self, name: str, *, silent: bool) -> None:
        """The machine is gone; its Node goes with it, or stays and says nothing."""
        if name not in self._nodes():
            return
        self._taken_for_on_demand(name)
        self._world.cluster.machinery.stop_kubelet(name)
        if not silent:
            self._world.call("DELETE", f"/api/v1/nodes/{name}")
        self._world.plan_step()

    def _wave(self, notice: float, silent: bool) -> None:
        spot = self._spot()
        self._happened["Wave silent" if silent else "Wave deleted"] += bool(spot)
        self._happened["Wave with notice"] += bool(spot) and notice > 0
        self._happened["second wave"] += bool(spot) and self._world.now - self._wave_at < 120.0
        self._wave_at = self._world.now + notice
        for name in spot:
            self._taken_for_on_demand(name)
            if notice:
                self._taint(name, _DOOMED["short taint" if notice <= 30 else "taint"][0])
                self._end_later(notice, name, silent=silent)
            else:
                self._end_node(name, silent=silent)

    # What happens to processes and messages.

    def _to_processes(self, step: ProcessStep) -> None:
        world = self._world
        match step:
            case steps.KillLeader():
                if (member := world.leader()) is not None:
                    world.end(member)
            case steps.KillLeaderAt(message=message, answered=answered):
                self._at(message, answered, "killed", world.end)
            case steps.KillStandby():
                leader = world.leader()
                standby = next((member for member in world.members if member is not leader), None)
                if standby is not None:
                    world.end(standby)
            case steps.PauseLeader(seconds=seconds):
                if (member := world.leader()) is not None:
                    self._pause(member, seconds)
            case steps.PauseLeaderAt(message=message, answered=answered, seconds=seconds):
                self._at(message, answered, "paused", partial(self._pause, seconds=seconds))
            case steps.StopLeader():
                if (member := world.leader()) is not None:
                    world.stop(member)
            case steps.BothDown(seconds=seconds):
                world.closed_until = world.now + seconds
                for member in tuple(world.members):
                    world.end(member)
            case steps.RefuseCreations(every=every):
                self._refuse_creations(every)
            case steps.Meddle(how=how):
                self._meddle(how)
            case steps.Storm(kind=kind):
                world.network.weather = _STORMS[kind]
            case steps.LoseReviews(kind=kind):
                self._happened["reviews reordered"] += kind in ("reordered", "all")
                world.calls.passage = _TROUBLES[kind]
            case steps.Calm():
                world.network.weather, world.calls.passage = CALM, CLEAR
            case steps.CutWatches(compact=compact):
                if compact:
                    self._happened["compacted"] += 1
                    world.cluster.api.store.compact()
                world.network.cut_watches()
                self._blind(0.0)
            case steps.ServerDown(seconds=seconds):
                world.network.down = True
                world.network.cut_watches()
                world.timeline.after(seconds, lambda: setattr(world.network, "down", False))
                self._blind(seconds)
            case steps.SetClock(machine=machine, seconds=seconds):
                world.set_clock(machine, seconds)
            case steps.LoseSecret():
                world.call("DELETE", f"/api/v1/namespaces/{OURS}/secrets/{CERTIFICATES}")
            case steps.Pass():
                pass
            case _:
                assert_never(step)

    def _blind(self, seconds: float) -> None:
        self._watchdog.blind_until = max(self._watchdog.blind_until, self._world.now + seconds + RECONNECTED_S)

    def _pause(self, member: SpotMember, seconds: float) -> None:
        member.process.pause()
        self._blind(seconds)
        self._world.timeline.after(seconds, partial(self._wake, member))

    def _wake(self, member: SpotMember) -> None:
        """SIGCONT. Whoever slept for longer than its Lease believes that it leads until it looks at the clock."""
        if member.process.state is ProcessState.PAUSED:
            self._happened["stale leader woke up"] += not member.controller.elector.leading()
            member.process.resume()

    def _at(self, message: str, answered: bool, what: str, do: Callable[[SpotMember], None]) -> None:
        """Has something happen to a leader at its next message of a kind."""
        world = self._world
        until = world.now + WITHIN_S

        def met(identity: str, when: str) -> None:
            member = next((each for each in world.members if each.identity == identity), None)
            if member is not None and world.now <= until:
                self._happened[f"leader {what} {when}"] += 1
                do(member)

        if message == "review":
            self._at_review(answered, met)
            return

        def left(request: Request, identity: Identity) -> None:
            if _kind(request) == message:
                world.network.leaving.remove(left)
                met(identity.user, f"before its {message} left")

        def arrived(request: Request, _: Response | Watch, identity: Identity) -> None:
            if _kind(request) == message:
                world.told.remove(arrived)
                met(identity.user, f"before the answer to its {message}")

        if answered:
            world.told.append(arrived)
        else:
            world.network.leaving.append(left)

    def _at_review(self, answered: bool, met: Callable[[str, str], None]) -> None:
        """Before its answer counts for anybody, or when it is on its way and the pod is not in the watch."""

        def given(identity: str, _: object) -> None:
            self._world.answers.remove(given)
            when = "before the answer to its review" if answered else "before its review left"
            # the process is in the middle of its turn
            self._world.timeline.after(0.0005 if answered else 0.0, partial(met, identity, when))

        self._world.answers.append(given)

    # What others do at admission.

    def _refuse_creations(self, every: int) -> None:
        self._world.call("DELETE", f"{_VALIDATING}/quota")
        if not every:
            return

        def quota(_: Mapping[str, Any]) -> tuple[float, bytes]:
            self._creations += 1
            if self._creations % every:
                return 0.001, b'{"allowed":true}'
            self._happened["creation refused"] += 1
            return 0.001, b'{"allowed":false,"status":{"code":403,"message":"exceeded quota"}}'

        self._world.calls.third[_QUOTA] = quota
        self._world.make(_VALIDATING, _third("quota", _QUOTA))

    def _meddle(self, how: str) -> None:
        self._world.call("DELETE", f"{CONFIGURATIONS}/zz-meddler")
        if not how:
            return
        self._happened[f"Meddle {how}"] += 1

        def meddler(review: Mapping[str, Any]) -> tuple[float, bytes]:
            if how == "slow":
                return 1.5, b'{"allowed":true}'
            operations = _meddled(review["request"]["object"])
            if not operations:
                return 0.002, b'{"allowed":true}'
            self._happened["affinity meddled with"] += 1
            patch = base64.b64encode(msgspec.json.encode(operations)).decode()
            return 0.002, msgspec.json.encode({"allowed": True, "patchType": "JSONPatch", "patch": patch})

        self._world.calls.third[_MEDDLER] = meddler
        self._world.make(CONFIGURATIONS, _third("zz-meddler", _MEDDLER))


def workload(plan: WorkloadPlan) -> dict[str, Any]:
    """As its user writes it."""
    labels = {"app": plan.name}
    pod: dict[str, Any] = {
        "terminationGracePeriodSeconds": 2,
        "containers": [{"name": "c", "image": "example.com/c:1", "resources": {"requests": {"cpu": "100m"}}}],
    }
    if plan.zone:
        pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _zones(plan.zone)}}
    spec: dict[str, Any] = {
        "replicas": plan.replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
        "minReadySeconds": plan.min_ready_s,
    }
    if plan.kind == "StatefulSet":
        spec |= {"serviceName": plan.name, "podManagementPolicy": "Parallel" if plan.parallel else "OrderedReady"}
    else:
        rolling = {"maxSurge": "25%", "maxUnavailable": 0} if plan.surge else {"maxSurge": 0, "maxUnavailable": 1}
        spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    annotations = {ON_DEMAND: plan.policy} if plan.policy else {}
    return {"metadata": {"name": plan.name, "annotations": annotations}, "spec": spec}


def _zones(zone: str) -> dict[str, Any]:
    def term(value: str) -> dict[str, Any]:
        return {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [value]}]}

    return {"nodeSelectorTerms": [term(zone), term("zone-of-nobody")]}


def _meddled(pod: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Every required term is narrowed to nodes that have a name, which all have; an operation for each."""
    node_affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    base = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"
    wanted = {"key": "kubernetes.io/hostname", "operator": "Exists"}
    return [
        {"op": "add", "path": f"{base}/{number}/matchExpressions/-", "value": wanted}
        for number, term in enumerate(required.get("nodeSelectorTerms") or ())
        if wanted not in (term.get("matchExpressions") or (wanted,))
    ]


def _third(name: str, url: str) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {
        "name": f"{name}.example.com",
        "clientConfig": {"url": url},
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": SHOP}},
    }
    return {"metadata": {"name": name}, "webhooks": [hook]}


def _kind(request: Request) -> str:
    """Of a message of ours."""
    if f"/namespaces/{SHOP}/pods/" not in request.path:
        return ""
    if request.path.endswith("/eviction"):
        return "eviction"
    if request.method == "DELETE":
        return "delete"
    if request.method != "PATCH":
        return ""
    return "release" if b"released-" in request.body else "mark"


def _collection(plan: WorkloadPlan) -> str:
    return f"/apis/apps/v1/namespaces/{SHOP}/{_KINDS[plan.kind]}"


def _most(number: int) -> int:
    """Replicas that leave room for all."""
    return 2 if WORKLOADS[number].name == "solo" else 10


def _rfc1123(at: datetime) -> str:
    return at.strftime("%a, %d %b %Y %H:%M:%S GMT")
