"""Room by kube-scheduler's own filters, over a snapshot of nodes and pods (3.7: "fits a node").

A pod is asked about as if it had not been classed: our own expression is taken out of its affinity, and the tolerations
of spot pools are added. Nodes that end, may end or take no pods are never room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from situate.framework.cache import Cache
from situate.framework.cycle import PluginFailed, find_feasible
from situate.framework.pods import BadPod
from situate.framework.profile import Profile
from situate.objects.pods import Affinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, Toleration
from situate.spot.counting import Nodes
from situate.spot.model import Capacity, NodeState, PodFacts


class FilteredRoom:
    """Answers as of the moment at which it was made."""

    def __init__(
        self,
        cache: Cache,
        profile: Profile,
        nodes: Nodes,
        pod_of: Callable[[str], Pod | None],
        ours: NodeSelectorRequirement,
        tolerations: Sequence[Toleration] = (),
    ) -> None:
        """`pod_of`: by uid; `ours`: the expression of the on-demand class; `tolerations`: of spot pools."""
        self._reader = cache.reader
        self._placed = cache
        self._snapshot = cache.snapshot()
        self._profile = profile
        self._nodes = nodes
        self._pod_of = pod_of
        self._ours = ours
        self._tolerations = tuple(tolerations)

    def fits(
        self,
        pod: PodFacts,
        capacity: Capacity,
        *,
        without: PodFacts | None = None,
        pools: Collection[str] | None = None,
    ) -> bool:
        """A pod that is not known, or that no filter can read, fits nowhere."""
        found = self._pod_of(pod.uid)
        if found is None:
            return False
        snapshot = self._snapshot
        if without is not None and (known := self._placed.pod(without.uid)) is not None:
            snapshot = snapshot.branch().forget(known.info)
        try:
            info = self._reader.read(unclassed(found, self._ours, self._tolerations))
            feasible = find_feasible(self._profile, info, snapshot)
        except (BadPod, PluginFailed):
            return False
        return any(
            bool(feasible.passes[index]) and self._usable(snapshot.name(index), capacity, pools)
            for index in range(snapshot.count)
        )

    def _usable(self, name: str, capacity: Capacity, pools: Collection[str] | None) -> bool:
        node = self._nodes.get(name)
        return (
            node is not None
            and node.capacity is capacity
            and node.state is NodeState.OK
            and (pools is None or node.pool in pools)
        )


def unclassed(pod: Pod, ours: NodeSelectorRequirement, tolerations: Sequence[Toleration]) -> Pod:
    """A copy that waits for a node and may have one of either capacity."""
    spec = msgspec.structs.replace(
        pod.spec,
        node_name="",
        scheduling_gates=(),
        affinity=_without(pod.spec.affinity, ours),
        tolerations=(*pod.spec.tolerations, *tolerations),
    )
    metadata = msgspec.structs.replace(pod.metadata, uid=f"{pod.metadata.uid} moved", deletion_timestamp=None)
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec)


def _without(affinity: Affinity, ours: NodeSelectorRequirement) -> Affinity:
    node_affinity = affinity.node_affinity
    if node_affinity is None or node_affinity.required is None:
        return affinity
    terms: list[NodeSelectorTerm] = []
    for term in node_affinity.required.node_selector_terms:
        rest = tuple(expression for expression in term.match_expressions if expression != ours)
        if not rest and not term.match_fields and term.match_expressions:
            terms = []  # nothing else was asked for: any node will do
            break
        terms.append(NodeSelectorTerm(rest, term.match_fields))
    required = NodeSelector(tuple(terms)) if terms else None
    changed = msgspec.structs.replace(node_affinity, required=required)
    return msgspec.structs.replace(affinity, node_affinity=changed)
