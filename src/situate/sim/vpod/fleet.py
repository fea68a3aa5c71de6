"""The pods of one StatefulSet and their nodes, as small state machines on a timeline.

Pods are managed in parallel, like those of Knative's dispatchers. A new pod goes to the node with the fewest pods in
the zone with the fewest pods. A silent node runs nothing from that moment on, and is seen as lost only later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from situate.sim.timeline import Timeline
from situate.sim.vpod.settings import FleetSettings
from situate.vpod.model.pod_classes import NodeFacts, PodFacts
from situate.vpod.model.vpod import pod_name


@dataclass(slots=True)
class SimulatedNode:
    name: str
    zone: str
    up: bool = True
    """Whether pods run on it. `lost` is the observed state."""
    lost: bool = False
    cordoned: bool = False
    silent_since: float | None = None

    def facts(self) -> NodeFacts:
        """Return the node as the scheduler sees it."""
        return NodeFacts(self.name, self.zone, self.cordoned, ready=not self.lost, unreachable=self.lost)


@dataclass(slots=True, eq=False)
class SimulatedPod:
    ordinal: int
    name: str
    uid: str
    node: SimulatedNode | None = None
    """None while the pod is Pending."""
    started: bool = False
    starts: int = 0
    """Number of attempts so far. Only the last one counts."""
    deleting: bool = False
    marked: bool = False
    """Whether it has the annotation that makes it unschedulable."""

    @property
    def running(self) -> bool:
        """Return whether its vreplicas run."""
        return self.started and self.node is not None and self.node.up


@dataclass(slots=True)
class Fleet:
    """Pods and nodes that change by its methods and by time.

    It calls `pod_changed` or `node_changed` for every change.
    """

    timeline: Timeline
    cluster: FleetSettings
    statefulset: str
    replicas: int = 0
    pod_changed: Callable[[int], object] = bool  # no listener
    node_changed: Callable[[str], object] = bool
    full: bool = False
    pods: dict[int, SimulatedPod] = field(default_factory=dict)
    nodes: dict[str, SimulatedNode] = field(default_factory=dict)
    _made: int = 0

    def __post_init__(self) -> None:
        self.nodes = {name: SimulatedNode(name, zone) for name, zone in self.cluster.node_names()}

    def scale(self, replicas: int) -> None:
        """Set spec.replicas: create missing pods, and delete surplus ones, the highest first."""
        self.replicas = replicas
        for ordinal in sorted((o for o in self.pods if o >= replicas), reverse=True):
            self._delete(self.pods[ordinal])
        self._create_missing()

    def lose_pod(self, ordinal: int) -> None:
        """Remove a pod at once. It is created again."""
        pod = self.pods.get(ordinal)
        if pod is not None:
            self._remove(pod)

    def set_unschedulable(self, ordinal: int, marked: bool) -> None:
        """Set or remove the unschedulable annotation, as an operator does."""
        pod = self.pods.get(ordinal)
        if pod is not None:
            pod.marked = marked
            self.pod_changed(ordinal)

    def cordon(self, name: str, cordoned: bool) -> None:
        self.nodes[name].cordoned = cordoned
        self.node_changed(name)
        self._bind_waiting()

    def set_full(self, full: bool) -> None:
        """Set whether no node accepts a new pod, because of other pods."""
        self.full = full
        self._bind_waiting()

    def lose_node(self, name: str) -> None:
        """Silence a node. It is seen as lost later, and then its pods are created elsewhere."""
        node = self.nodes[name]
        if not node.up:
            return
        node.up, node.silent_since = False, self.timeline.now
        since = node.silent_since
        self.timeline.call_after(self.cluster.node_lost_after, lambda: self._mark_lost(node, since))
        self.timeline.call_after(self.cluster.pods_leave_after, lambda: self._remove_lost_pods(node, since))

    def return_node(self, name: str) -> None:
        """Return a node to service. Pods that are still on it start again."""
        node = self.nodes[name]
        if node.up:
            return
        node.up, node.lost, node.silent_since = True, False, None
        self.node_changed(name)
        for pod in self._pods_on(node):
            if pod.deleting:
                self._remove(pod)
            else:
                pod.started = False
                self.pod_changed(pod.ordinal)
                self._start_later(pod)
        self._bind_waiting()

    def facts(self, ordinal: int) -> PodFacts | None:
        """Return the pod as the scheduler sees it, or None."""
        pod = self.pods.get(ordinal)
        if pod is None:
            return None
        return PodFacts(
            pod.name,
            node=pod.node.name if pod.node is not None else "",
            annotation="true" if pod.marked else None,
            phase="Running" if pod.started else "Pending",
            ready=pod.started and pod.node is not None and not pod.node.lost,
            deleting=pod.deleting,
            uid=pod.uid,
        )

    def _create_missing(self) -> None:
        for ordinal in range(self.replicas):
            if ordinal not in self.pods:
                self._made += 1
                pod = self.pods[ordinal] = SimulatedPod(
                    ordinal, pod_name(self.statefulset, ordinal), f"pod-{self._made}"
                )
                self._bind(pod)
                self.pod_changed(ordinal)

    def _bind_waiting(self) -> None:
        for ordinal in sorted(self.pods):
            pod = self.pods[ordinal]
            if pod.node is None and not pod.deleting and self._bind(pod):
                self.pod_changed(ordinal)

    def _bind(self, pod: SimulatedPod) -> bool:
        node = None if self.full else self._best_node()
        if node is None:
            return False
        pod.node = node
        self._start_later(pod)
        return True

    def _best_node(self) -> SimulatedNode | None:
        on_node: Counter[str] = Counter()
        in_zone: Counter[str] = Counter()
        for pod in self.pods.values():
            if pod.node is not None:
                on_node[pod.node.name] += 1
                in_zone[pod.node.zone] += 1
        most = self.cluster.pods_per_node
        usable = (
            node
            for node in self.nodes.values()
            if not node.lost and not node.cordoned and (most is None or on_node[node.name] < most)
        )
        return min(usable, key=lambda node: (in_zone[node.zone], on_node[node.name]), default=None)

    def _start_later(self, pod: SimulatedPod) -> None:
        pod.starts += 1
        attempt = pod.starts
        self.timeline.call_after(self.cluster.pod_start_delay, lambda: self._start(pod, attempt))

    def _start(self, pod: SimulatedPod, attempt: int) -> None:
        is_there = self.pods.get(pod.ordinal) is pod and not pod.deleting
        if is_there and pod.starts == attempt and pod.node is not None and pod.node.up:
            pod.started = True
            self.pod_changed(pod.ordinal)

    def _delete(self, pod: SimulatedPod) -> None:
        if pod.deleting:
            return
        pod.deleting = True
        self.pod_changed(pod.ordinal)
        if pod.node is None:
            self._remove(pod)
        else:
            self.timeline.call_after(self.cluster.pod_stop_delay, lambda: self._finish_stop(pod))

    def _finish_stop(self, pod: SimulatedPod) -> None:
        """Remove a stopped pod. On a silent node it stays until the node returns or is given up."""
        if self.pods.get(pod.ordinal) is pod and pod.node is not None and pod.node.up:
            self._remove(pod)

    def _remove(self, pod: SimulatedPod) -> None:
        del self.pods[pod.ordinal]
        self.pod_changed(pod.ordinal)
        self._bind_waiting()
        self._create_missing()

    def _mark_lost(self, node: SimulatedNode, since: float) -> None:
        if node.silent_since == since:
            node.lost = True
            self.node_changed(node.name)
            for pod in self._pods_on(node):
                self.pod_changed(pod.ordinal)

    def _remove_lost_pods(self, node: SimulatedNode, since: float) -> None:
        if node.silent_since == since:
            for pod in self._pods_on(node):
                self._remove(pod)

    def _pods_on(self, node: SimulatedNode) -> list[SimulatedPod]:
        return [pod for _, pod in sorted(self.pods.items()) if pod.node is node]
