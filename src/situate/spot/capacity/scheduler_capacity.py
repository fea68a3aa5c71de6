"""Free capacity by kube-scheduler's own filters, over a snapshot of nodes and pods.

A pod is checked as if it had no class: the class's expression is removed from its affinity, and the tolerations of spot
pools are added. Nodes that end, may end or take no pods never count as free capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from situate.framework.cycle.cycle import Feasibility, PluginFailed, find_feasible, score
from situate.framework.pod.pods import BadPod, PodInfo
from situate.framework.profile.profile import Profile
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.cache import Cache
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.pods import (
    Affinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    Toleration,
)
from situate.spot.capacity.free_capacity import PlanningCapacity
from situate.spot.model.counts import Nodes
from situate.spot.model.pods_nodes_workloads import Capacity, NodeState, PodFacts


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """Nodes and pods after the moves so far."""

    snapshot: Snapshot
    placed_pods: dict[str, Pod] = field(default_factory=dict)
    """Pods by uid that were placed in this trial or in one that shares its origin. The snapshot shows the pods placed
    here."""
    exclusive: bool = False
    """Whether no other trial uses the snapshot, so that it can be changed without a copy."""
    usable_nodes: dict[tuple[Capacity, frozenset[str] | None], Mask] = field(default_factory=dict)
    """Usable nodes by capacity and pools; cached, because the nodes do not change during a trial."""

    @property
    def base(self) -> Snapshot:
        return self.snapshot if self.exclusive else self.snapshot.branch()


class SchedulerCapacity(PlanningCapacity):
    """Answers by kube-scheduler's filters, valid for the moment of creation."""

    def __init__(
        self,
        cache: Cache,
        profile: Profile,
        nodes: Nodes,
        pod_of: Callable[[str], Pod | None],
        ours: NodeSelectorRequirement,
        tolerations: Sequence[Toleration] = (),
        trial: _Trial | None = None,
    ) -> None:
        """`pod_of`: by uid; `ours`: the expression of the on-demand class; `tolerations`: of spot pools.

        `trial`: None for the state of the cache; otherwise the state after moves.
        """
        self._cache = cache
        self._trial = _Trial(cache.snapshot()) if trial is None else trial
        self._profile = profile
        self._nodes = nodes
        self._pod_of = pod_of
        self._class_requirement = ours
        self._tolerations = tuple(tolerations)

    def fits(
        self,
        pod: PodFacts,
        capacity: Capacity,
        *,
        without: PodFacts | None = None,
        pools: Collection[str] | None = None,
    ) -> bool:
        """Return whether the pod fits. A pod that is unknown, or that no filter can read, fits nowhere."""
        found = self._find_pod(pod.uid)
        if found is None:
            return False
        try:
            feasible = self._find_feasible_nodes(pod, self._read_pod_info(found, None), self._trial.snapshot, without)
        except (BadPod, PluginFailed):
            return False
        return len(self._nodes_of_capacity(feasible, capacity, pools)) > 0

    def after_addition(
        self, pod: PodFacts, uid: str, capacity: Capacity, pools: Collection[str] | None = None
    ) -> tuple[SchedulerCapacity, str]:
        """Return the state after one more pod like this one, `uid`, and its node: the first that fits, or empty."""
        found = self._find_pod(pod.uid)
        if found is None:
            return self, ""
        try:
            info = self._read_pod_info(found, uid)
            feasible = self._find_feasible_nodes(pod, info, self._trial.snapshot, None)
        except (BadPod, PluginFailed):
            return self, ""
        chosen = self._nodes_of_capacity(feasible, capacity, pools)
        if not len(chosen):
            return self, ""
        first = int(chosen[0])
        after = self._trial.base.assume(info, first)
        return self._with_snapshot(after, info), after.name(first)

    def after_move(self, pod: PodFacts, uid: str, capacity: Capacity) -> tuple[SchedulerCapacity, str]:
        """Choose the node of that capacity by the profile's scores, the first of the best."""
        left = self._snapshot_without(pod, self._trial.base)
        found = self._find_pod(pod.uid)
        if found is None:
            return self._with_snapshot(left), ""
        try:
            info = self._read_pod_info(found, uid)
            feasible = find_feasible(self._profile, info, left)
            nodes = self._nodes_of_capacity(feasible, capacity, None)
            if not len(nodes):
                return self._with_snapshot(left), ""
            best = int(nodes[np.argmax(score(self._profile, info, feasible, nodes))])
        except (BadPod, PluginFailed):
            return self._with_snapshot(left), ""
        return self._with_snapshot(left.assume(info, best), info), left.name(best)

    def _with_snapshot(self, snapshot: Snapshot, came: PodInfo | None = None) -> SchedulerCapacity:
        if came is not None:
            self._trial.placed_pods[came.uid] = came.pod
        trial = _Trial(snapshot, self._trial.placed_pods, exclusive=True, usable_nodes=self._trial.usable_nodes)
        return SchedulerCapacity(
            self._cache, self._profile, self._nodes, self._pod_of, self._class_requirement, self._tolerations, trial
        )

    def _find_pod(self, uid: str) -> Pod | None:
        return self._trial.placed_pods.get(uid) or self._pod_of(uid)

    def _read_pod_info(self, pod: Pod, uid: str | None) -> PodInfo:
        return self._cache.reader.read(unclassified_copy(pod, self._class_requirement, self._tolerations, uid))

    def _find_feasible_nodes(
        self, pod: PodFacts, info: PodInfo, snapshot: Snapshot, without: PodFacts | None
    ) -> Feasibility:
        """Find the nodes that take the pod. Rules between pods are evaluated as if the pod itself had gone."""
        related = bool(info.template.has_terms or info.spread)
        if related or without is not None:
            snapshot = snapshot.branch()
        for each in (pod if related else None, without):
            if each is not None:
                snapshot = self._snapshot_without(each, snapshot)
        return find_feasible(self._profile, info, snapshot)

    def _snapshot_without(self, pod: PodFacts, snapshot: Snapshot) -> Snapshot:
        known = snapshot.placed.get(pod.uid)  # from the snapshot: the cache may be newer
        return snapshot if known is None else snapshot.forget(known[0])

    def _nodes_of_capacity(self, found: Feasibility, capacity: Capacity, pools: Collection[str] | None) -> Indices:
        """Return the feasible nodes of this capacity, in the given pools."""
        return np.flatnonzero(found.passes & self._usable_nodes(capacity, None if pools is None else frozenset(pools)))

    def _usable_nodes(self, capacity: Capacity, pools: frozenset[str] | None) -> Mask:
        """Return a mask over the nodes: whether pods may be sent there."""
        known = self._trial.usable_nodes.get((capacity, pools))
        if known is None:
            names = self._trial.snapshot.nodes.names
            known = np.fromiter((self._accepts_pods(name, capacity, pools) for name in names), np.bool_, len(names))
            self._trial.usable_nodes[capacity, pools] = known
        return known

    def _accepts_pods(self, name: str, capacity: Capacity, pools: frozenset[str] | None) -> bool:
        node = self._nodes.get(name)
        return (
            node is not None
            and node.capacity is capacity
            and node.state is NodeState.OK
            and (pools is None or node.pool in pools)
        )


def unclassified_copy(
    pod: Pod, ours: NodeSelectorRequirement, tolerations: Sequence[Toleration], uid: str | None = None
) -> Pod:
    """Return a copy of the pod without a node that accepts either capacity, with a new `uid`."""
    spec = msgspec.structs.replace(
        pod.spec,
        node_name="",
        scheduling_gates=(),
        affinity=_affinity_without(pod.spec.affinity, ours),
        tolerations=(*pod.spec.tolerations, *tolerations),
        volumes=tuple(volume for volume in pod.spec.volumes if volume.ephemeral is None),  # a new pod gets new ones
    )
    metadata = msgspec.structs.replace(
        pod.metadata, uid=f"{pod.metadata.uid} moved" if uid is None else uid, deletion_timestamp=None
    )
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec)


def _affinity_without(affinity: Affinity, ours: NodeSelectorRequirement) -> Affinity:
    node_affinity = affinity.node_affinity
    if node_affinity is None or node_affinity.required is None:
        return affinity
    terms: list[NodeSelectorTerm] = []
    for term in node_affinity.required.node_selector_terms:
        rest = tuple(expression for expression in term.match_expressions if expression != ours)
        if not rest and not term.match_fields and term.match_expressions:
            terms = []  # the term requires nothing else, so any node matches
            break
        terms.append(NodeSelectorTerm(rest, term.match_fields))
    required = NodeSelector(tuple(terms)) if terms else None
    changed = msgspec.structs.replace(node_affinity, required=required)
    return msgspec.structs.replace(affinity, node_affinity=changed)
