"""The pods that kube-controller-manager would remove, by the costs of spot."""

from __future__ import annotations

from situate.spot.model.counts import Nodes, counted_pods
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import PodFacts
from situate.spot.workloads.deletion_cost import deletion_costs, removal_order


def removal_candidates(workload: Workload, count: int, nodes: Nodes, now: float) -> list[PodFacts]:
    """Return the pods that Kubernetes would remove, in order."""
    live = counted_pods(workload.pods)
    if workload.owner.stateful:
        return sorted(live, key=lambda pod: workload.owner.ordinal(pod.key.name) or 0, reverse=True)[:count]
    return removal_order(live, live, now, deletion_costs(workload, nodes, now))[:count]
