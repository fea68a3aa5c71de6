"""The policy of the safe profile: adds or removes vreplicas one by one, on top of the existing placements.

Existing placements stay (`rescale: keep`), and a shortage retains the placed vreplicas. No Pod is filled above its
capacity, with any predicates. The caller handles classes, trimming, targets and reservations.
"""

from __future__ import annotations

import msgspec
import numpy as np

from situate.vpod.policy.choose import Arithmetic, best_pod, feasible_pods
from situate.vpod.policy.filters import NoMaxResourceCount, PodFitsResources
from situate.vpod.policy.registry import CompiledPolicy
from situate.vpod.policy.scores import Direction
from situate.vpod.policy.status import SUCCESS, Status
from situate.vpod.policy.view import PolicyView

CAPACITY_FILTER = PodFitsResources()


class PlacementOutcome(msgspec.Struct, frozen=True):
    """The change: `changes` maps ordinals to the positive number of vreplicas added or removed."""

    changes: dict[int, int]
    left: int
    status: Status = SUCCESS  # an error if a plugin could not score, which ended the loop


def place_vreplicas(view: PolicyView, policy: CompiledPolicy, vreplicas: int) -> PlacementOutcome:
    """Place more vreplicas one by one, each on the best Pod with free capacity that passes every predicate then."""
    work = view.copy()
    changes: dict[int, int] = {}
    filters = (CAPACITY_FILTER, *policy.filters)
    for left in range(vreplicas, 0, -1):
        candidates = feasible_pods(work, filters)
        pod, status = best_pod(work, candidates, policy, Direction.PLACE, Arithmetic.EXACT)
        if pod is None:
            return PlacementOutcome(changes, left, status)
        work.add(pod, 1)
        ordinal = int(work.ordinals[pod])
        changes[ordinal] = changes.get(ordinal, 0) + 1
    return PlacementOutcome(changes, 0)


def capacity_upper_bound(view: PolicyView, policy: CompiledPolicy) -> int:
    """Return an upper bound of the vreplicas that fit on the view, from the free capacity and the number of Pods."""
    rooms = np.sort(np.maximum(view.free[view.schedulable] // view.weight, 0))[::-1]
    limits = [plugin.num_partitions for plugin in policy.filters if isinstance(plugin, NoMaxResourceCount)]
    # Pods that already hold the vpod count, whatever the limit
    pods = min([len(rooms), *(max(0, limit) + int(view.in_spread.sum()) for limit in limits)])
    return int(rooms[:pods].sum())


def remove_vreplicas(view: PolicyView, policy: CompiledPolicy, vreplicas: int) -> PlacementOutcome:
    """Remove vreplicas one by one, each from the best Pod that still holds some.

    Predicates choose among these Pods. If they refuse all Pods, or a Pod cannot be scored, the highest ordinal loses a
    vreplica, because the surplus must go (D14). `left` is above 0 only if the Pods hold fewer vreplicas than requested.
    """
    work = view.copy()
    changes: dict[int, int] = {}
    for left in range(vreplicas, 0, -1):
        holding = work.schedulable & (work.own > 0)
        if not holding.any():
            return PlacementOutcome(changes, left)
        candidates = holding & feasible_pods(work, policy.filters)
        pod, _ = best_pod(work, candidates, policy, Direction.REMOVE, Arithmetic.EXACT)
        if pod is None:
            pod = int(np.flatnonzero(holding)[-1])
        work.add(pod, -1)
        ordinal = int(work.ordinals[pod])
        changes[ordinal] = changes.get(ordinal, 0) + 1
    return PlacementOutcome(changes, 0)
