"""The deletion costs of OpenKruise's WorkloadSpread, which the vectors compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from situate.spot.model.pods_nodes_workloads import PodFacts

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


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
        first = sorted(active, key=lambda pod: _PHASES.get(pod.phase, 0) if pod.node else -1)[:surplus]
        beyond = {pod.uid for pod in first}
        within, rest = 100 * (count - place), -100 * (place + 1)
        costs.append([(rest if pod.uid in beyond else within) if pod.active else None for pod in subset.pods])
    return costs


def free_slots(subset: Subset) -> int:
    """Return how many more pods the subset takes, 0 or more; -1 without a limit."""
    return -1 if subset.most is None else max(0, subset.most - sum(pod.active for pod in subset.pods))
