"""Pools: spot nodes that are reclaimed together, by instance type and zone.

Rule: B47.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from situate.spot.model.counts import Nodes, counted_pods
from situate.spot.model.pods_nodes_workloads import INSTANCE_TYPE_LABEL, ZONE_LABEL, Capacity, PodFacts


def pods_by_pool(pods: Iterable[PodFacts], nodes: Nodes) -> Counter[str]:
    """Count a workload's live pods on spot nodes, by pool."""
    places = (nodes.get(pod.node) for pod in counted_pods(pods))
    return Counter(node.pool for node in places if node is not None and node.capacity is Capacity.SPOT)


def crowded_pools(pods: Iterable[PodFacts], nodes: Nodes) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the instance types that a workload fills most, or the zones if all types are equally full.

    Admission adds preferred terms against them. Empty if the workload has no pod on spot, or fills all of them equally.
    """
    places = [node for pod in counted_pods(pods) if (node := nodes.get(pod.node)) is not None]
    on_spot = [node for node in places if node.capacity is Capacity.SPOT]
    every = [node for node in nodes.values() if node.capacity is Capacity.SPOT]
    for label, used, known in (
        (INSTANCE_TYPE_LABEL, Counter(node.instance_type for node in on_spot), {node.instance_type for node in every}),
        (ZONE_LABEL, Counter(node.zone for node in on_spot), {node.zone for node in every}),
    ):
        most = max(used.values(), default=0)
        fullest = {value for value, count in used.items() if count == most and value}
        if most and fullest and fullest < known - {""}:
            return ((label, tuple(sorted(fullest))),)
    return ()
