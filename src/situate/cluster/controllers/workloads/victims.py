"""Choose the pods that a ReplicaSet deletes first (upstream: controller_utils.go, ActivePodsWithRanks)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cmp_to_key

from situate.cluster.controllers.node.pods import PodFacts
from situate.objects.values.pod_age import compare_ages

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def pods_to_delete(pods: Iterable[PodFacts], related: Iterable[PodFacts], count: int, now: float) -> list[PodFacts]:
    """Return the `count` pods to delete, first choice first.

    `related` are the pods of all ReplicaSets with the same controller. Pods on nodes with more active ones among them
    are deleted earlier. Ages are compared in powers of two; ties are decided by uid.
    """
    on_node = Counter(pod.node for pod in related if pod.active)

    def before(a: PodFacts, b: PodFacts) -> int:
        return _compare_pods(a, b, on_node[b.node] - on_node[a.node], now)

    return sorted(pods, key=cmp_to_key(before))[:count]


def _compare_pods(a: PodFacts, b: PodFacts, doubled_up: int, now: float) -> int:
    if a.node != b.node and not (a.node and b.node):
        return -1 if not a.node else 1
    for difference in (
        _PHASES.get(a.phase, 0) - _PHASES.get(b.phase, 0),
        int(a.ready) - int(b.ready),
        a.deletion_cost - b.deletion_cost,
        doubled_up,
    ):
        if difference:
            return difference
    if a.ready and b.ready and a.ready_since != b.ready_since:
        return compare_ages(a.ready_since, b.ready_since, now) or _compare_uids(a, b)
    if a.restarts != b.restarts:
        return b.restarts - a.restarts
    if a.created != b.created:
        return compare_ages(a.created, b.created, now) or _compare_uids(a, b)
    return _compare_uids(a, b)


def _compare_uids(a: PodFacts, b: PodFacts) -> int:
    return (a.uid > b.uid) - (a.uid < b.uid)
