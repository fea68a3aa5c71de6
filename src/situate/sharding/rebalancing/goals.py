"""Plans for the goals even, bounded and two-sided: the fewest moves for objects that count one each, in any pool size.

All bounds are whole numbers, computed without rounding from the number of objects and of live executors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from heapq import heapify, heappop, heappush

from situate.sharding.rebalancing.plans import Move, PlacedObject, Plan, orphans


class Goal(StrEnum):
    """How equal the executors should be."""

    EVEN = "even"
    """The largest and the smallest count differ by at most 1."""
    BOUNDED = "bounded"
    """No executor has more than 1.25 times the mean, rounded up."""
    TWO_SIDED = "two-sided"
    """As `BOUNDED`, and no executor has less than 0.75 times the mean, rounded down."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most objects that each executor may have."""

    least: Mapping[str, int]
    most: Mapping[str, int]

    def allow(self, counts: Mapping[str, int]) -> bool:
        return all(self.least[each] <= counts[each] <= self.most[each] for each in self.most)


def bounds(goal: Goal, counts: Mapping[str, int], total: int) -> Bounds:
    """Return the bounds for executors with `counts` now; `total` includes orphans."""
    size = len(counts)
    most = -(-5 * total // (4 * size))
    match goal:
        case Goal.BOUNDED:
            return Bounds(dict.fromkeys(counts, 0), dict.fromkeys(counts, most))
        case Goal.TWO_SIDED:
            return Bounds(dict.fromkeys(counts, 3 * total // (4 * size)), dict.fromkeys(counts, most))
        case Goal.EVEN:
            level, more = divmod(total, size)
            fullest = sorted(counts, key=lambda each: (-counts[each], each))
            levels = {each: level + (place < more) for place, each in enumerate(fullest)}
            return Bounds(levels, levels)


def misses_goal(goal: Goal, counts: Mapping[str, int]) -> bool:
    """Return whether the executors miss the goal, without orphans."""
    return bool(counts) and not bounds(goal, counts, sum(counts.values())).allow(counts)


def plan(goal: Goal, objects: Iterable[PlacedObject], live: Collection[str]) -> Plan:
    """Return the fewest moves to the goal; of an executor's objects, the first ones move.

    Objects that may not move stay, and the plan comes as close to the goal as the others allow.
    """
    listed = list(objects)
    lost = orphans(listed, live)
    if not live:
        return Plan(reached=not listed, why="no executor is live" if listed else "")
    counts = dict.fromkeys(sorted(live), 0)
    leaving: dict[str, list[PlacedObject]] = defaultdict(list)
    for each in reversed(listed):
        if each.executor in counts:
            counts[each.executor] += 1
            if each.movable:
                leaving[each.executor].append(each)
    goal_bounds = bounds(goal, counts, len(listed))
    given = _objects_to_move(counts, goal_bounds, leaving, len(lost))
    targets = _targets(counts, goal_bounds, len(lost) + len(given))
    forced = tuple(Move(each.uid, each.executor, target) for each, target in zip(lost, targets, strict=False))
    voluntary = tuple(
        Move(each.uid, each.executor, target) for each, target in zip(given, targets[len(lost) :], strict=True)
    )
    beyond = sorted(each for each in counts if not goal_bounds.least[each] <= counts[each] <= goal_bounds.most[each])
    why = f"objects that must not move keep {', '.join(beyond[:5])} from the goal {goal}" if beyond else ""
    return Plan(forced, voluntary, not beyond, why)


def _objects_to_move(
    counts: dict[str, int], allowed: Bounds, leaving: Mapping[str, list[PlacedObject]], lost: int
) -> list[PlacedObject]:
    """Return the objects that live executors give up, the fullest first; reduces `counts` accordingly."""
    given: list[PlacedObject] = []
    missing = sum(max(0, allowed.least[each] - count) for each, count in counts.items())
    donors = [(-count, each) for each, count in counts.items() if leaving.get(each)]
    heapify(donors)
    while donors:
        negative, donor = heappop(donors)
        count = -negative
        is_short = missing > lost + len(given)
        if count > allowed.most[donor] or (is_short and count > allowed.least[donor]):
            given.append(leaving[donor].pop())
            counts[donor] = count - 1
            if leaving[donor]:
                heappush(donors, (-counts[donor], donor))
    return given


def _targets(counts: dict[str, int], allowed: Bounds, number: int) -> list[str]:
    """Return the executors of the next objects, each time the one with the fewest; raises `counts` accordingly."""
    takers = [(count, each) for each, count in counts.items() if count < allowed.most[each]]
    heapify(takers)
    targets = []
    for _ in range(number):
        count, taker = heappop(takers)
        targets.append(taker)
        counts[taker] = count + 1
        if counts[taker] < allowed.most[taker]:
            heappush(takers, (counts[taker], taker))
    return targets
