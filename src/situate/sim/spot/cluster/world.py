"""A simulated cluster: its API's view and the true state, nodes that come and end, pods that start and serve.

`scheduling` binds pods, `controllers` replaces them, and an admit function classes them. All events are on the
timeline. The API's view may be older than the true state: pods of a lost node stay in it until the loss is detected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from situate.sim.spot.cluster.delays import Delays, GaussianSource
from situate.sim.spot.cluster.scheduler import EqualPods, NodeLoad, PodState, Scheduler
from situate.sim.spot.cluster.shapes import NAMESPACE, NodeKind, Shape, Shapes
from situate.sim.spot.results.account import EndCause, SpotAccount
from situate.sim.timeline import ScheduledCall, Timeline
from situate.spot.admission.patch import Operation
from situate.spot.capacity.free_capacity import PlanningCapacity
from situate.spot.model.pods_nodes_workloads import Capacity, NodeFacts, NodeState, Owner, PodFacts, PodKey
from situate.spot.workloads.cluster_objects import Cluster
from situate.spot.workloads.constraints import LOST_NODE_TAINTS
from situate.spot.workloads.on_demand_target import Namespace
from situate.spot.workloads.owners import ReplicaSetFacts

_TOLERATION_S = 300.0
"""Seconds that a pod without a toleration of its own tolerates a lost node."""


@dataclass(slots=True, eq=False)
class SimPod:
    facts: PodFacts
    """The API's view of the pod."""
    shape: Shape
    owner: str
    """UID of the workload."""
    app: str
    """Name of the service that it belongs to."""
    node: SimNode | None = None
    serving: bool = False

    @property
    def state(self) -> PodState:
        if self.facts.terminating:
            return PodState.TERMINATING
        return PodState.RELEASED if self.facts.released else PodState.WHOLE


@dataclass(slots=True, eq=False)
class SimNode:
    facts: NodeFacts
    kind: NodeKind
    runs: bool = True
    """Whether the machine runs."""
    barred: bool = False
    pods: dict[str, SimPod] = field(default_factory=dict)
    """By UID: the pods that are not gone."""
    _load: NodeLoad | None = None

    def invalidate_load(self) -> None:
        self._load = None

    @property
    def load(self) -> NodeLoad:
        if self._load is None:
            counts: dict[tuple[int, PodState], tuple[Shape, int]] = {}
            for pod in self.pods.values():
                key = pod.shape.number, pod.state
                counts[key] = pod.shape, counts.get(key, (pod.shape, 0))[1] + 1
            tenants = tuple(EqualPods(counts[key][0], key[1], counts[key][1]) for key in sorted(counts))
            self._load = NodeLoad.create(self.facts.name, self.kind, self.barred, tenants)
        return self._load


@dataclass(frozen=True, slots=True)
class PodCreation:
    """A pod that a controller wants to create."""

    owner: Owner
    app: str
    controller: str
    """UID of the ReplicaSet, or of the workload itself."""
    document: Mapping[str, Any]
    """The document that the webhook receives."""
    template: str
    """Identifies the document without the pod's name."""
    name: str = ""
    """Empty if the server generates the name."""


Admit = Callable[[PodCreation, str], Sequence[Operation]]
"""Returns the operations on a new pod. The text is a token of its own."""


class SpotWorld:
    def __init__(
        self,
        timeline: Timeline,
        account: SpotAccount,
        chance: GaussianSource,
        delays: Delays,
        scheduler: Scheduler,
        shapes: Shapes,
    ) -> None:
        self.timeline, self.account, self.chance, self.delays = timeline, account, chance, delays
        self.shapes = shapes
        self._scheduler = scheduler
        self.owners: dict[str, Owner] = {}
        self.replica_sets: dict[str, ReplicaSetFacts] = {}
        self.pods: dict[str, SimPod] = {}
        self.nodes: dict[str, SimNode] = {}
        """Nodes with a Node object."""
        self.admit: Admit = lambda _birth, _token: ()
        self.on_pods: Callable[[str], None] = lambda _owner: None
        """Called after each change of a workload's pods."""
        self.on_change: Callable[[], None] = lambda: None
        """Called after each change that the API shows."""
        self.grown: NodeKind | None = None
        """The kind of on-demand nodes that are added for waiting pods. None: none are added."""
        self._created_count = 0
        self._growing = 0
        """Places of requested nodes that have not arrived."""
        self._binding: ScheduledCall | None = None
        self._of: dict[str, dict[str, PodFacts]] = {}
        self._tuples: dict[str, Sequence[PodFacts]] = {}
        self._node_facts: dict[str, NodeFacts] = {}
        self._namespaces = {NAMESPACE: Namespace(NAMESPACE)}

    def fork(self, timeline: Timeline, account: SpotAccount, chance: GaussianSource) -> SpotWorld:
        """Return the same cluster with its own future. No event may be pending."""
        twin = SpotWorld(timeline, account, chance, self.delays, self._scheduler, self.shapes)
        twin.owners, twin.replica_sets = dict(self.owners), dict(self.replica_sets)
        twin.grown, twin._created_count = self.grown, self._created_count
        for name, node in self.nodes.items():
            twin.nodes[name] = SimNode(node.facts, node.kind, node.runs, node.barred)
        for uid, pod in self.pods.items():
            home = twin.nodes[pod.node.facts.name] if pod.node is not None else None
            twin.pods[uid] = SimPod(pod.facts, pod.shape, pod.owner, pod.app, home, pod.serving)
            if home is not None:
                home.pods[uid] = twin.pods[uid]
        twin._of = {owner: dict(pods) for owner, pods in self._of.items()}
        twin._node_facts = dict(self._node_facts)
        return twin

    @property
    def now(self) -> float:
        return self.timeline.now

    @property
    def is_complete(self) -> bool:
        """Return whether no pod is missing, no change is in progress, and no node is about to end."""
        wanted = sum(owner.replicas for owner in self.owners.values())
        if len(self.pods) != wanted or self._binding is not None:
            return False
        if any(node.facts.ending for node in self.nodes.values()):
            return False
        return all(pod.serving and pod.facts.live for pod in self.pods.values())

    # the API's view

    def cluster(self) -> Cluster:
        """Return the API's view, valid until the next change."""
        for owner, pods in self._of.items():
            if owner not in self._tuples:
                self._tuples[owner] = tuple(pods.values())
        return Cluster(self.owners, self.replica_sets, dict(self._tuples), self._node_facts, self._namespaces)

    def pods_of(self, owner: str) -> Sequence[PodFacts]:
        if owner not in self._tuples:
            self._tuples[owner] = tuple(self._of.get(owner, {}).values())
        return self._tuples[owner]

    def fits(self, pod: PodFacts, capacity: Capacity, without: PodFacts | None, pools: Collection[str] | None) -> bool:
        """Answer the question of `situate.spot.capacity.free_capacity.FreeCapacity`."""
        known = self.pods.get(pod.uid)
        if known is None:
            return False
        seats = self._node_loads()
        less = None
        if without is not None and (other := self.pods.get(without.uid)) is not None and other.node is not None:
            names = [seat.name for seat in seats]
            if other.node.facts.name in names:
                less = names.index(other.node.facts.name), other.shape
        facts = [node.facts for node in self.nodes.values()]
        return self._scheduler.fits(known.shape, seats, _loads_key(seats), facts, capacity, less, pools)

    def capacity_for_plan(self) -> PlanningCapacity:
        """Return free places for which several moves can be checked in turn."""
        uids = {
            name: [pod.facts.uid for pod in sorted(node.pods.values(), key=lambda pod: (pod.shape.number, pod.state))]
            for name, node in self.nodes.items()
        }
        return self._scheduler.capacity_for_plan(self._node_loads(), self._node_facts, uids)

    def _node_loads(self) -> list[NodeLoad]:
        return [node.load for node in self.nodes.values()]

    def set_fields(self, pod: SimPod, **changes: Any) -> None:
        """Change the API's view of a pod in a field that only its writer reads."""
        self._set_pod_facts(pod, replace(pod.facts, **changes))

    def update(self, pod: SimPod, **changes: Any) -> None:
        """Change the API's view of a pod, and notify the controller."""
        self.set_fields(pod, **changes)
        self.on_change()

    def _set_pod_facts(self, pod: SimPod, facts: PodFacts) -> None:
        pod.facts = facts
        if pod.node is not None:
            pod.node.invalidate_load()
        self._of.setdefault(pod.owner, {})[facts.uid] = facts
        self._tuples.pop(pod.owner, None)

    def _set_node_facts(self, node: SimNode, facts: NodeFacts) -> None:
        node.facts = facts
        self._node_facts[facts.name] = facts
        node.invalidate_load()
        self.on_change()

    # pods

    def create(self, birth: PodCreation) -> None:
        self._created_count += 1
        token = f"t{self._created_count}"
        operations = self.admit(birth, token)
        shape = self.shapes.shape_of(birth.template, birth.document, operations)
        name = birth.name or f"{birth.owner.name}-{self._created_count}"
        facts = replace(
            shape.facts,
            key=PodKey(NAMESPACE, name),
            uid=f"{name}/{self._created_count}",
            token=token if operations else "",
            created=self.now,
        )
        pod = SimPod(facts, shape, birth.owner.uid, birth.app)
        self.pods[facts.uid] = pod
        self._set_pod_facts(pod, facts)
        self.on_change()
        self.schedule()

    def delete(self, uid: str, cause: EndCause) -> None:
        """Delete a pod with its grace period, as an eviction does. Do nothing if it is already terminating."""
        pod = self.pods.get(uid)
        if pod is None or pod.facts.terminating:
            return
        self.account.count_end(cause)
        if pod.node is None:
            self._remove_pod(uid)
            return
        self._set_pod_facts(pod, replace(pod.facts, terminating=True))
        if pod.node.runs:
            self.timeline.call_after(self.delays.stop_s, partial(self._stop_pod, uid))
            self.timeline.call_after(max(self.delays.stop_s, self.delays.end_s), partial(self._finish_stop, uid))
        self.on_pods(pod.owner)
        self.on_change()

    def _stop_pod(self, uid: str) -> None:
        pod = self.pods.get(uid)
        if pod is not None:
            self._set_serving(pod, False)
            self.update(pod, ready=False, ready_since=None)

    def _finish_stop(self, uid: str) -> None:
        """Remove an ended pod, if its kubelet still runs to report the end."""
        pod = self.pods.get(uid)
        if pod is not None and pod.node is not None and pod.node.runs:
            self._remove_pod(uid)

    def _remove_pod(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is None:
            return
        self._set_serving(pod, False)
        if pod.node is not None:
            if pod.node.runs:
                self.account.change_running(self.now, pod.node.kind.capacity, -1)
            del pod.node.pods[uid]
            pod.node.invalidate_load()
        del self._of[pod.owner][uid]
        self._tuples.pop(pod.owner, None)
        self.on_pods(pod.owner)
        self.on_change()
        self.schedule()

    def _set_serving(self, pod: SimPod, serves: bool) -> None:
        if pod.serving is not serves:
            pod.serving = serves
            self.account.change_serving(self.now, pod.app, 1 if serves else -1)

    def release(self, uid: str, deadline: float) -> None:
        """Take a pod out of its ReplicaSet. It still serves (K6)."""
        pod = self.pods.get(uid)
        if pod is None or pod.facts.terminating or pod.facts.released:
            return
        facts = pod.facts
        self._set_pod_facts(
            pod, replace(facts, released=True, controller="", owners=0, former_owner=pod.owner, deadline=deadline)
        )
        self.on_pods(pod.owner)
        self.on_change()

    # the scheduler

    def schedule(self) -> None:
        """Bind all pods that fit, after a delay."""
        if self._binding is None:
            self._binding = self.timeline.call_after(self.delays.bind_s, self._bind_all)

    def _bind_all(self) -> None:
        self._binding = None
        seats, left = self._node_loads(), []
        key = _loads_key(seats)
        refused: set[int] = set()
        for pod in [pod for pod in self.pods.values() if pod.node is None and not pod.facts.gated]:
            shape = pod.shape
            index = self._scheduler.place(shape, seats, key) if seats and shape.number not in refused else None
            if index is None:
                refused.add(shape.number)
                left.append(pod)
                continue
            self._bind(pod, self.nodes[seats[index].name])
            seats[index] = self.nodes[seats[index].name].load
            key = _loads_key(seats)
            refused.clear()
        if left and self.grown is not None:
            self._request_nodes(self.grown, seats, Counter(pod.shape for pod in left))

    def _bind(self, pod: SimPod, node: SimNode) -> None:
        pod.node = node
        node.pods[pod.facts.uid] = pod
        self._set_pod_facts(pod, replace(pod.facts, node=node.facts.name, started=self.now))
        self.account.change_running(self.now, node.kind.capacity, 1)
        self.timeline.call_after(self.delays.start.draw(self.chance), partial(self._finish_start, pod.facts.uid))
        self.on_pods(pod.owner)
        self.on_change()

    def _finish_start(self, uid: str) -> None:
        pod = self.pods.get(uid)
        if pod is None or pod.facts.terminating or pod.node is None or not pod.node.runs:
            return
        self._set_serving(pod, True)
        self.update(pod, ready=True, ready_since=self.now, phase="Running")
        self.on_pods(pod.owner)

    def _request_nodes(self, kind: NodeKind, seats: Sequence[NodeLoad], waiting: Mapping[Shape, int]) -> None:
        """Request on-demand nodes for pods that would fit there."""
        more = [*seats, NodeLoad.create("new", kind, False, ())]
        key = _loads_key(more)
        wanting = sum(count for shape, count in waiting.items() if self._scheduler.place(shape, more, key) is not None)
        while self._growing < wanting:
            self._growing += kind.slots
            self.timeline.call_after(self.delays.node_start.draw(self.chance), self._add_requested_node)

    def _add_requested_node(self) -> None:
        assert self.grown is not None
        self._growing -= self.grown.slots
        self.add_node(self.grown)

    # nodes

    def add_node(self, kind: NodeKind, age_s: float = 0.0) -> None:
        self._created_count += 1
        name = f"{kind.capacity}-{kind.zone}-{self._created_count}"
        facts = NodeFacts(
            name,
            kind.capacity,
            pool=f"{kind.instance_type}/{kind.zone}",
            instance_type=kind.instance_type,
            zone=kind.zone,
            created=self.now - age_s,
            cpu_milli=1000 * kind.slots,
        )
        self.nodes[name] = SimNode(facts, kind)
        self._set_node_facts(self.nodes[name], facts)
        self.schedule()

    def announce_end(self, name: str, seconds: float) -> None:
        """Announce the end of a node. A termination handler has tainted it."""
        node = self.nodes[name]
        node.barred = True
        facts = replace(
            node.facts, state=NodeState.DOOMED, deadline=self.now + seconds, why="spot notice", tainted=True
        )
        self._set_node_facts(node, facts)

    def end_node(self, name: str, *, silent: bool) -> None:
        """End a machine. Its Node object is deleted too, unless it ends silently."""
        node = self.nodes[name]
        node.runs = False
        for pod in node.pods.values():
            self._set_serving(pod, False)
        self.account.change_running(self.now, node.kind.capacity, -len(node.pods))
        if silent:
            self.timeline.call_after(self.delays.silent_s, partial(self._mark_unreachable, node))
        else:
            self.forget_node(name)

    def forget_node(self, name: str) -> None:
        """Delete a Node object. Its remaining pods are removed when this is detected."""
        node = self.nodes.pop(name)
        del self._node_facts[name]
        self.timeline.call_after(self.delays.detection_s, partial(self._collect_pods, node))
        self.on_change()

    def _collect_pods(self, node: SimNode) -> None:
        for uid, pod in list(node.pods.items()):
            if not pod.facts.terminating:
                self.account.count_end(EndCause.LOST)
            self._remove_pod(uid)

    def _mark_unreachable(self, node: SimNode) -> None:
        if node.facts.name not in self.nodes:
            return
        node.barred = True
        for uid, pod in node.pods.items():
            self._set_pod_facts(pod, replace(pod.facts, ready=False, ready_since=None))
            self.timeline.call_after(_toleration_seconds(pod.facts), partial(self._evict_by_taint, uid))
        facts = replace(node.facts, state=NodeState.DEAD, deadline=self.now, why="unreachable", tainted=True)
        self._set_node_facts(node, facts)

    def _evict_by_taint(self, uid: str) -> None:
        """Mark the pod as deleted. The object stays, because no kubelet ends the pod."""
        self.delete(uid, EndCause.LOST)


def _loads_key(seats: Sequence[NodeLoad]) -> tuple[object, ...]:
    return tuple([seat.key for seat in seats])


def _toleration_seconds(pod: PodFacts) -> float:
    return float(min((seconds for key, seconds in pod.evicting if key in LOST_NODE_TAINTS), default=_TOLERATION_S))
