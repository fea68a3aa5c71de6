"""Headroom: whether on-demand nodes could take the pods that a wave displaces, and the balloon pods to reserve it.

Computed before a wave: the displaced pods are placed one after the other, each in the capacity that is left. Rule: B24.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from situate.spot.capacity.free_capacity import PlanningCapacity
from situate.spot.model.counts import Nodes, effective_capacity
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import MIX, PREFIX, Capacity, Owner, PodFacts

BALLOON: Final = PREFIX + "balloon"
"""Label of balloon pods: they only reserve capacity and give way to any pod, so their space counts as free."""
_NAME: Final = "situate-spot-balloons"
_PRIORITY: Final = -10
"""The lowest priority for which cluster-autoscaler still adds nodes (its expendable-pods-priority-cutoff)."""


@dataclass(frozen=True, slots=True)
class WaveCapacity:
    """On-demand capacity for one wave."""

    displaced: int
    """Pods that would need a place."""
    unplaced_pods: tuple[PodFacts, ...]
    """Displaced pods that would find no place."""
    missing_for: Mapping[str, int]
    """By workload, such as `Deployment shop/web`."""

    @property
    def missing(self) -> int:
        return len(self.unplaced_pods)

    @property
    def placed_count(self) -> int:
        return self.displaced - self.missing


def displaced_pods(
    workloads: Iterable[Workload], nodes: Nodes, largest_wave: int | None = None
) -> list[tuple[Owner, PodFacts]]:
    """Return the pods that are not on demand; with `largest_wave` only those of that many fullest nodes."""
    found = [
        (workload.owner, pod)
        for workload in workloads
        for pod in workload.live_pods
        if pod.node and effective_capacity(pod, nodes) is not Capacity.ON_DEMAND
    ]
    if largest_wave is None:
        return found
    fullest = Counter(pod.node for _, pod in found).most_common(largest_wave)
    stricken = {name for name, _ in fullest}
    return [(owner, pod) for owner, pod in found if pod.node in stricken]


def wave_capacity(going: Iterable[tuple[Owner, PodFacts]], places: PlanningCapacity) -> WaveCapacity:
    """Place the pods in the given order. If one pod of a workload finds no place, its next pods are not tried."""
    steps = wave_capacity_in_steps(going, places)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: WaveCapacity = end.value
            return found


def wave_capacity_in_steps(
    going: Iterable[tuple[Owner, PodFacts]], places: PlanningCapacity
) -> Generator[None, None, WaveCapacity]:
    """Place the pods in steps of one pod, so that other work can run between the steps."""
    listed = list(going)
    without: list[PodFacts] = []
    refused: set[tuple[str, str]] = set()
    missing: Counter[str] = Counter()
    for owner, pod in listed:
        node = ""
        if owner.pinned is not Capacity.SPOT and (owner.uid, pod.revision) not in refused:
            places, node = places.after_move(pod, f"{pod.uid}, displaced", Capacity.ON_DEMAND)
        if not node:
            refused.add((owner.uid, pod.revision))
            without.append(pod)
            missing[str(owner)] += 1
        yield
    return WaveCapacity(len(listed), tuple(without), dict(missing))


def balloon_objects(
    namespace: str, count: int, requests: Mapping[str, str], term: Mapping[str, Any], image: str
) -> list[dict[str, Any]]:
    """Build balloon pods that reserve capacity for `count` pods of this size; the operator applies them.

    `requests`: of each pod; `term`: the node selector term of on-demand nodes; `image`: one that contains Python. Any
    pod of higher priority takes their place, and an autoscaler then adds nodes for them.
    """
    labels = {BALLOON: "true", MIX: "disabled"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [dict(term)]}}
    pod = {
        "priorityClassName": _NAME,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "affinity": {"nodeAffinity": required},
        "containers": [
            {
                "name": "room",
                "image": image,
                "command": ["python", "-c", "import signal; signal.pause()"],
                "resources": {"requests": dict(requests)},
            }
        ],
    }
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": _NAME},
            "value": _PRIORITY,
            "preemptionPolicy": "Never",
            "description": "Reserves on-demand capacity for pods of ending spot nodes. Every other pod may take it.",
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": _NAME, "namespace": namespace, "labels": dict(labels)},
            "spec": {
                "replicas": count,
                "selector": {"matchLabels": {BALLOON: "true"}},
                "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
            },
        },
    ]
