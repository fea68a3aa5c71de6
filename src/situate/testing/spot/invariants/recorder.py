"""A recorder of the cluster: time, owner, node, phase and service of each pod (docs/spec/spot.md).

It reads the server's store directly, which costs nothing. `situate.testing.spot.invariants` checks the records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from situate.cluster.storage.store import Event, Store
from situate.testing.spot.invariants.object_rows import (
    ON_DEMAND,
    NodeRow,
    Obj,
    OwnerRow,
    PodRow,
    is_same_node,
    node_row,
    owner_row,
    pod_row,
)

_LOG: Final = 4000
"""Number of rows held for the report of a failure."""


@dataclass(slots=True)
class Recorder:
    """Rows of pods and workloads by UID, and of nodes by name. `node_works` returns whether a machine really runs."""

    store: Store
    namespace: str
    """Namespace of the workloads. Pods elsewhere are ignored."""
    clock: Callable[[], float]
    node_works: Callable[[str], bool]
    pods: dict[str, PodRow] = field(default_factory=dict)
    owners: dict[str, OwnerRow] = field(default_factory=dict)
    nodes: dict[str, NodeRow] = field(default_factory=dict)
    log: deque[tuple[float, str, str, str, str, str]] = field(default_factory=lambda: deque(maxlen=_LOG))
    """Time, pod, owner, node, phase, and whether the pod serves."""
    change_listeners: list[Callable[[str], None]] = field(default_factory=list)
    """Listeners called with the UID of every workload of which a pod has changed."""
    ungate_listeners: list[Callable[[Obj, Obj], None]] = field(default_factory=list)
    """Listeners called with every pod that leaves our gate: the object before and after."""
    gone_pods: dict[str, PodRow] = field(default_factory=dict)
    """By name: the last removed pod."""
    _set_owners: dict[str, str] = field(default_factory=dict)
    """By UID of a ReplicaSet: the UID of its workload."""
    _generations: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store.subscribe(self._observe)
        for table in self.store.tables():
            for each in table.sorted_objects():
                self._observe(Event("ADDED", table.resource, each.revision, None, each))

    def owner_of(self, pod: PodRow) -> str:
        """Return the UID of the pod's workload, even if it is gone. Empty: none."""
        return pod.former_owner or self._set_owners.get(pod.controller, pod.controller)

    def pods_of(self, owner: str) -> list[PodRow]:
        """Return all pods of a workload, including those that are terminating or released."""
        return [pod for pod in self.pods.values() if self.owner_of(pod) == owner]

    def pod_named(self, name: str) -> PodRow | None:
        return next((pod for pod in self.pods.values() if pod.name == name), None)

    def is_serving(self, pod: PodRow) -> bool:
        """Return whether the pod is ready and its machine runs. Endpoints vanish when a deletion begins."""
        return pod.ready and not pod.terminating and self.node_works(pod.node)

    def effective_class(self, pod: PodRow) -> str:
        """Return `on-demand`, `spot`, `unknown`, or an empty text for a pod on a node that ends."""
        if not pod.node:
            return pod.pod_class or "unknown"
        node = self.nodes.get(pod.node)
        if node is None:
            return "unknown"
        return "" if node.ending else node.capacity or "unknown"

    def serving_count(self, owner: str) -> int:
        return sum(map(self.is_serving, self.pods_of(owner)))

    def on_demand_serving_count(self, owner: str) -> int:
        """Return the number of live pods that serve and are effectively on demand."""
        return sum(
            pod.live and self.is_serving(pod) and self.effective_class(pod) == "on-demand"
            for pod in self.pods_of(owner)
        )

    def on_demand_count(self, owner: str) -> int:
        """Return the number of live pods that are effectively on demand."""
        return sum(pod.live and self.effective_class(pod) == "on-demand" for pod in self.pods_of(owner))

    def describe_pods(self, owner: str) -> str:
        """Describe the pods of a workload in words."""
        words = []
        for pod in self.pods_of(owner):
            state = "released" if pod.released else "terminating" if pod.terminating else pod.phase or "Pending"
            ready = "ready" if self.is_serving(pod) else "not ready"
            words.append(f"{pod.name} ({pod.pod_class or 'unclassed'}, on {pod.node or '-'}, {state}, {ready})")
        return ", ".join(words)

    def _observe(self, event: Event) -> None:
        match event.resource:
            case "pods":
                if event.last.namespace == self.namespace:
                    self._on_pod_change(event)
            case "nodes":
                self._on_node_change(event)
            case "replicasets.apps":
                if event.new is not None:
                    self._set_owners[event.last.uid] = next(iter(event.last.owners), "")
            case "deployments.apps" | "statefulsets.apps" | "rollouts.argoproj.io" | "clonesets.apps.kruise.io":
                self._on_owner_change(event)

    def _on_pod_change(self, event: Event) -> None:
        uid, now = event.last.uid, self.clock()
        before = self.pods.get(uid)
        if event.new is None:
            if before is not None:
                self.gone_pods[before.name] = self.pods.pop(uid)
        else:
            self.pods[uid] = pod_row(event.new.object(), before, now)
            if before is not None and before.gated and not self.pods[uid].gated and event.old is not None:
                for told in self.ungate_listeners:
                    told(event.old.object(), event.new.object())
        after = self.pods.get(uid)
        row = after or before
        if row is None:
            return
        owner = self.owner_of(row)
        serves = "gone" if after is None else "serves" if self.is_serving(row) else "does not serve"
        state = "terminating" if row.terminating else "released" if row.released else row.phase
        self.log.append((now, row.name, owner, row.node, state, serves))
        for listener in self.change_listeners:
            listener(owner)

    def _on_node_change(self, event: Event) -> None:
        name = event.last.name
        before = self.nodes.pop(name, None)
        if event.new is not None:
            after = self.nodes[name] = node_row(event.new.object(), self.clock())
            if before is not None and is_same_node(before, after):
                after.changed_at = before.changed_at
                return
        for owner in {self.owner_of(pod) for pod in self.pods.values() if pod.node == name}:
            for listener in self.change_listeners:
                listener(owner)

    def _on_owner_change(self, event: Event) -> None:
        uid = event.last.uid
        before = self.owners.get(uid)
        if event.new is None:
            self.owners.pop(uid, None)
            return
        obj = event.new.object()
        row = owner_row(obj, before, self.clock())
        said = (obj["metadata"].get("annotations") or {}).get(ON_DEMAND)
        generation = (obj["metadata"].get("generation", 0), said, row.opted_out, row.may_restart)
        if before is not None and self._generations.get(uid) == hash(generation):
            row.changed_at = before.changed_at
        self._generations[uid] = hash(generation)
        self.owners[uid] = row


def owners_in_order(recorder: Recorder) -> Iterator[OwnerRow]:
    """Yield the workloads by name, so that every run has the same order."""
    yield from sorted(recorder.owners.values(), key=lambda each: (each.name, each.uid))
