"""The policy of the safe profile: add vreplicas one by one to what is there, or take them away one by one.

What is there already stays where it is (`rescale: keep`), a shortage keeps what could be placed, and no pod is ever
filled above its capacity, whichever predicates are configured. Classes, trimming, targets and reservations are the
caller's.
"""

from __future__ import annotations

import msgspec
import numpy as np

from situate.vpod.policy.choose import Arithmetic, best_pod, feasible_pods
from situate.vpod.policy.filters import NoMaxResourceCount, PodFitsResources
from situate.vpod.policy.registry import CompiledPolicy
from situate.vpod.policy.scores import Direction
from situate.vpod.policy.status import SUCCESS, Status
from situate.vpod.policy.view import View

ROOM = PodFitsResources()


class Outcome(msgspec.Struct, frozen=True):
    """What changes: `changes` maps ordinals to vreplicas added (or removed, as a positive number), none of them 0."""

    changes: dict[int, int]
    left: int
    status: Status = SUCCESS  # an error when a plugin could not score, which ended the loop


def placed(view: View, policy: CompiledPolicy, vreplicas: int) -> Outcome:
    """Place so many more, each on the best pod that has room and passes every predicate, as counts stand by then."""
    work = view.copy()
    changes: dict[int, int] = {}
    filters = (ROOM, *policy.filters)
    for left in range(vreplicas, 0, -1):
        candidates = feasible_pods(work, filters)
        pod, status = best_pod(work, candidates, policy, Direction.PLACE, Arithmetic.EXACT)
        if pod is None:
            return Outcome(changes, left, status)
        work.add(pod, 1)
        ordinal = int(work.ordinals[pod])
        changes[ordinal] = changes.get(ordinal, 0) + 1
    return Outcome(changes, 0)


def most_that_fit(view: View, policy: CompiledPolicy) -> int:
    """No more than this many more can be placed on the view, in whichever order: by room, and by the number of pods."""
    rooms = np.sort(np.maximum(view.free[view.schedulable] // view.weight, 0))[::-1]
    limits = [plugin.num_partitions for plugin in policy.filters if isinstance(plugin, NoMaxResourceCount)]
    # a place that the vpod has already counts as one of its pods whatever the limit
    pods = min([len(rooms), *(max(0, limit) + int(view.in_spread.sum()) for limit in limits)])
    return int(rooms[:pods].sum())


def removed(view: View, policy: CompiledPolicy, vreplicas: int) -> Outcome:
    """Remove so many, each from the best pod that still holds some.

    Predicates choose among these pods; where they refuse all of them, or a pod cannot be scored, the surplus must go
    all the same (D14), so the highest ordinal gives it up. `left` is above 0 only if the pods hold fewer than that.
    """
    work = view.copy()
    changes: dict[int, int] = {}
    for left in range(vreplicas, 0, -1):
        holding = work.schedulable & (work.own > 0)
        if not holding.any():
            return Outcome(changes, left)
        candidates = holding & feasible_pods(work, policy.filters)
        pod, _ = best_pod(work, candidates, policy, Direction.REMOVE, Arithmetic.EXACT)
        if pod is None:
            pod = int(np.flatnonzero(holding)[-1])
        work.add(pod, -1)
        ordinal = int(work.ordinals[pod])
        changes[ordinal] = changes.get(ordinal, 0) + 1
    return Outcome(changes, 0)
