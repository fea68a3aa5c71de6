"""Pods that count for a workload, and the capacity type as which each counts.

A bound pod counts by its node, an unbound pod by its class. Pods on ending nodes do not count. A pod belongs to a
workload by uid, never by labels or names. Rules: P13, P14.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from situate.spot.model.pods_nodes_workloads import Capacity, NodeFacts, PodFacts

Nodes = Mapping[str, NodeFacts]
"""By name."""


def effective_capacity(pod: PodFacts, nodes: Nodes) -> Capacity | None:
    """Return the capacity of the pod's node, or its class if it is unbound; None on a doomed or dead node.

    If the node is not known, the capacity is unknown.
    """
    if not pod.node:
        return pod.pod_class or Capacity.UNKNOWN
    node = nodes.get(pod.node)
    if node is None:
        return Capacity.UNKNOWN
    return None if node.ending else node.capacity


def counted_pods(pods: Iterable[PodFacts]) -> list[PodFacts]:
    """Return the pods that count: the live ones."""
    return [pod for pod in pods if pod.live]


def effective_on_demand_count(pods: Iterable[PodFacts], nodes: Nodes) -> int:
    """Count the pods that are effectively on demand, among pods that count."""
    return sum(effective_capacity(pod, nodes) is Capacity.ON_DEMAND for pod in pods)


def count_by_placement(pods: Iterable[PodFacts], nodes: Nodes) -> Mapping[Capacity | None, int]:
    """Count the pods that count, by effective capacity."""
    return Counter(effective_capacity(pod, nodes) for pod in counted_pods(pods))
