"""Deletion costs, and the order in which ReplicaSets remove pods.

ReplicaSets compare costs only between equally ready pods. StatefulSets ignore costs and remove the highest ordinals.
The order is that of kube-controller-manager (controller_utils.go, ActivePodsWithRanks). Rules: P31, P32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Final

from situate.objects.values.pod_age import compare_ages
from situate.spot.model.counts import Nodes, counted_pods, effective_capacity
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import Capacity, NodeState, PodFacts

ON_DEMAND_COST: Final = 200
SPOT_COST: Final = 100
AT_RISK_COST: Final = 90
YIELDING_COST: Final = 80
"""Cost of an old revision's on-demand pod whose successor serves: it leaves before the spot pods."""
DOOMED_COST: Final = 50
SURPLUS_COST: Final = -100
OUR_COSTS: Final = frozenset((ON_DEMAND_COST, SPOT_COST, AT_RISK_COST, YIELDING_COST, DOOMED_COST, SURPLUS_COST))
"""A pod with any other cost has it from its user, and keeps it."""

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class Subset:
    """A group of pods with a maximum; None has no limit."""

    pods: Sequence[PodFacts]
    most: int | None


def subset_costs(subsets: Sequence[Subset], *, old_revision: bool = False) -> list[list[int | None]]:
    """Return WorkloadSpread's costs: 100 x (n - i) for pods within subset i's maximum, -100 x (i + 1) for the surplus.

    The order of subsets is reversed for an old revision. Unassigned, pending and unknown pods are the surplus first,
    then the first pods of the list. Inactive pods get no cost.
    """
    count = len(subsets)
    costs = []
    for index, subset in enumerate(subsets):
        place = count - 1 - index if old_revision else index
        active = [pod for pod in subset.pods if pod.active]
        surplus = 0 if subset.most is None else max(0, len(active) - subset.most)
        first = sorted(active, key=lambda pod: _phase_rank(pod) if pod.node else -1)[:surplus]
        beyond = {pod.uid for pod in first}
        within, rest = 100 * (count - place), -100 * (place + 1)
        costs.append([(rest if pod.uid in beyond else within) if pod.active else None for pod in subset.pods])
    return costs


def free_slots(subset: Subset) -> int:
    """Return how many more pods the subset takes, 0 or more; -1 without a limit."""
    return -1 if subset.most is None else max(0, subset.most - sum(pod.active for pod in subset.pods))


def admission_cost(pod_class: Capacity) -> int:
    """Return the cost of a new pod."""
    return ON_DEMAND_COST if pod_class is Capacity.ON_DEMAND else SPOT_COST


def deletion_costs(workload: Workload, nodes: Nodes, now: float, yielding: Collection[str] = ()) -> dict[str, int]:
    """Return the cost that each live pod should have, by uid; none for pods of a StatefulSet.

    `yielding`: uids of old on-demand pods that must leave first for another reason.
    """
    owner, live = workload.owner, workload.live_pods
    if owner.stateful:
        return {}
    costs = {pod.uid: _cost_of(pod, nodes) for pod in live}
    on_demand = [pod for pod in live if effective_capacity(pod, nodes) is Capacity.ON_DEMAND]
    new = [pod for pod in on_demand if pod.revision == owner.revision]
    old = [pod for pod in on_demand if pod.revision != owner.revision]
    serving = sum(pod.ready for pod in new)
    spare = len(old) + serving - workload.target  # other old pods may have left already for some of the new ones
    if old and serving and spare > 0:
        for pod in removal_order(old, live, now)[: min(serving, spare)]:
            costs[pod.uid] = YIELDING_COST
    for pod in old:
        if pod.uid in yielding:
            costs[pod.uid] = YIELDING_COST
    surplus = max(0, len(new) - workload.target)
    if surplus:
        ranked = removal_order(new, live, now) if surplus < len(new) else new  # all leave: no order needed
        for pod in sorted(ranked, key=lambda pod: pod.pod_class is Capacity.ON_DEMAND)[:surplus]:
            costs[pod.uid] = SURPLUS_COST
    return costs


def cost_changes(workload: Workload, nodes: Nodes, now: float, yielding: Collection[str] = ()) -> dict[str, int]:
    """Return the costs to write: those that changed and do not belong to the user."""
    present = {pod.uid: pod for pod in workload.pods}
    return {
        uid: cost
        for uid, cost in deletion_costs(workload, nodes, now, yielding).items()
        if present[uid].cost != cost and _is_writable(present[uid])
    }


def _is_writable(pod: PodFacts) -> bool:
    """Return whether spot may write the cost of the pod.

    Never for a pod admitted without a class: its user may have left it without a cost on purpose.
    """
    return pod.pod_class is not None and (pod.cost is None or pod.cost in OUR_COSTS)


def _cost_of(pod: PodFacts, nodes: Nodes) -> int:
    node = nodes.get(pod.node)
    if node is not None and node.ending:
        return DOOMED_COST
    if effective_capacity(pod, nodes) is Capacity.ON_DEMAND:
        return ON_DEMAND_COST
    return AT_RISK_COST if node is not None and node.state is NodeState.AT_RISK else SPOT_COST


def removal_candidates(
    workload: Workload, count: int, nodes: Nodes, now: float, costs: Mapping[str, int] | None = None
) -> list[PodFacts]:
    """Return the pods that Kubernetes would remove, in order. `costs` by uid replace those on the pods."""
    live = counted_pods(workload.pods)
    if workload.owner.stateful:
        return sorted(live, key=lambda pod: workload.owner.ordinal(pod.key.name) or 0, reverse=True)[:count]
    if costs is None:
        costs = deletion_costs(workload, nodes, now)
    return removal_order(live, live, now, costs)[:count]


def removal_order(
    pods: Iterable[PodFacts], related: Iterable[PodFacts], now: float, costs: Mapping[str, int] | None = None
) -> list[PodFacts]:
    """Return the order in which a ReplicaSet removes pods; without `costs` those on the pods count.

    `related` are the active pods of all sibling ReplicaSets: pods on a node with more of them are removed earlier.
    """
    on_node = Counter(pod.node for pod in related)

    def cost(pod: PodFacts) -> int:
        return costs.get(pod.uid, 0) if costs is not None else (pod.cost or 0)

    def before(a: PodFacts, b: PodFacts) -> int:
        return _compare_pods(a, b, cost(a) - cost(b), on_node[b.node] - on_node[a.node], now)

    return sorted(pods, key=cmp_to_key(before))


def _compare_pods(a: PodFacts, b: PodFacts, cheaper: int, doubled_up: int, now: float) -> int:
    if bool(a.node) != bool(b.node):
        return -1 if not a.node else 1
    for difference in (_phase_rank(a) - _phase_rank(b), int(a.ready) - int(b.ready), cheaper, doubled_up):
        if difference:
            return difference
    if a.ready and b.ready and a.ready_since != b.ready_since:
        return compare_ages(a.ready_since, b.ready_since, now) or _compare_uids(a, b)
    if a.restarts != b.restarts:
        return b.restarts - a.restarts
    if a.created != b.created:
        return compare_ages(a.created, b.created, now) or _compare_uids(a, b)
    return _compare_uids(a, b)


def _phase_rank(pod: PodFacts) -> int:
    return _PHASES.get(pod.phase, 0)


def _compare_uids(a: PodFacts, b: PodFacts) -> int:
    return (a.uid > b.uid) - (a.uid < b.uid)
