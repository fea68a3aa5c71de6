"""Which pods count for a workload, and as what (P13, P14).

A bound pod counts by the node it is on, an unbound one by its class; pods on nodes that end count for nothing. Whose a
pod is, is a matter of uids: labels and names never say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from situate.spot.model.pods_nodes_workloads import Capacity, NodeFacts, PodFacts

Nodes = Mapping[str, NodeFacts]
"""By name."""


def effective(pod: PodFacts, nodes: Nodes) -> Capacity | None:
    """What the pod stands on, or is meant for; None on a node that is doomed or dead. A node not known is unknown."""
    if not pod.node:
        return pod.pod_class or Capacity.UNKNOWN
    node = nodes.get(pod.node)
    if node is None:
        return Capacity.UNKNOWN
    return None if node.ending else node.capacity


def counted(pods: Iterable[PodFacts], revision: str | None = None) -> list[PodFacts]:
    """Of a workload's pods those that count: live, and of the revision if one is asked for."""
    return [pod for pod in pods if pod.live and (revision is None or pod.revision == revision)]


def on_demand_effective(pods: Iterable[PodFacts], nodes: Nodes) -> int:
    """Of pods that count, those that are effectively on demand."""
    return sum(effective(pod, nodes) is Capacity.ON_DEMAND for pod in pods)


def by_placement(pods: Iterable[PodFacts], nodes: Nodes) -> Mapping[Capacity | None, int]:
    """Pods that count, by what they are effectively on."""
    return Counter(effective(pod, nodes) for pod in counted(pods))
