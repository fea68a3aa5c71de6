"""Move the fewest objects so that no executor's load exceeds a limit, for objects that differ in load.

Packing is NP-hard, so the plan is exact for up to 16 movable objects. For more objects, a good packing is accepted if
it is provably within 10 % of the fewest moves. Otherwise it is improved exactly over the 16 objects that matter most.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, product
from typing import Final

from situate.sharding.rebalancing.bins import EXACT_ITEMS, Bin, Item
from situate.sharding.rebalancing.plans import Move, PlacedObject, Plan

ROUNDING: Final = 1e-9
"""Tolerance as a share of the limit: a load above the limit by no more than this does not exceed it."""
_SLACK: Final = 1.1  # how far above the fewest moves a plan may be if the fewest are not known


def weighted_plan(objects: Iterable[PlacedObject], live: Collection[str], limit: float) -> Plan:
    """Return the fewest moves to loads of at most `limit`. If none is found, nothing moves and the plan says why."""
    listed = list(objects)
    if not live:
        return Plan(reached=not listed, why="no executor is live" if listed else "")
    problem = _build_problem(listed, sorted(live), limit)
    if isinstance(problem, str):
        return Plan(reached=False, why=problem)
    arrangement = _find_arrangement(problem)
    if arrangement is None:
        return Plan(reached=False, why=f"no assignment was found with every load at most {limit:g}")
    arrangement = _spread_moves(problem, arrangement)
    moves = [
        (problem.uids[place], Move(problem.uids[place], problem.origins[place], problem.names[target]))
        for place, target in enumerate(arrangement)
        if target != problem.items[place].home
    ]
    loads = {uid: item.load for uid, item in zip(problem.uids, problem.items, strict=True)}
    moves.sort(key=lambda each: -loads[each[0]])
    forced = tuple(move for _, move in moves if move.origin not in live)
    return Plan(forced, tuple(move for _, move in moves if move.origin in live))


@dataclass(frozen=True)
class _PackingProblem:
    """Movable objects as items, and executors as bins with the capacity that other objects leave."""

    items: tuple[Item, ...]
    uids: tuple[str, ...]
    origins: tuple[str, ...]
    bins: tuple[Bin, ...]
    names: tuple[str, ...]

    @cached_property
    def items_at_home(self) -> tuple[tuple[int, ...], ...]:
        """The items of each bin, the lightest first."""
        found: list[list[int]] = [[] for _ in self.bins]
        for place in sorted(range(len(self.items)), key=lambda each: (self.items[each].load, each)):
            if self.items[place].home >= 0:
                found[self.items[place].home].append(place)
        return tuple(map(tuple, found))

    def excess(self, home: int) -> float:
        """Return by how much the items of a bin exceed its capacity."""
        return sum(self.items[place].load for place in self.items_at_home[home]) - self.bins[home].capacity

    def free_capacities(self, staying: Iterable[int]) -> list[float]:
        """Return the free capacity of each bin if these items stay at home."""
        rooms = [each.capacity for each in self.bins]
        for place in staying:
            rooms[self.items[place].home] -= self.items[place].load
        return rooms


def _build_problem(objects: Sequence[PlacedObject], live: Sequence[str], limit: float) -> _PackingProblem | str:
    """Return the problem, or why no moves can solve it."""
    place = {name: number for number, name in enumerate(live)}
    rooms = [limit * (1 + ROUNDING)] * len(live)
    items, uids, origins = [], [], []
    for each in objects:
        home = place.get(each.executor)
        if home is not None and not each.movable:
            rooms[home] -= each.load
            continue
        if each.load > limit * (1 + ROUNDING):
            return f"object {each.uid} has a load of {each.load:g}, above the limit of {limit:g}"
        items.append(Item(each.load, -1 if home is None else home))
        uids.append(each.uid)
        origins.append(each.executor)
    over = next((name for name, room in zip(live, rooms, strict=True) if room < 0), None)
    if over is not None:
        return f"objects that must not move put executor {over} above the load limit of {limit:g}"
    total, room = sum(item.load for item in items), sum(rooms)
    if total > room:
        return f"objects with a total load of {total:g} need an executor, but the free capacity is {room:g}"
    bins = tuple(Bin(room) for room in rooms)
    return _PackingProblem(tuple(items), tuple(uids), tuple(origins), bins, tuple(live))


def _find_arrangement(problem: _PackingProblem) -> tuple[int, ...] | None:
    """Return the bin of each item; None if no arrangement was found."""
    removed = [_fewest_removals(problem, home) for home in range(len(problem.bins))]
    homeless = [place for place, item in enumerate(problem.items) if item.home < 0]
    least = len(homeless) + sum(map(len, removed))
    best = _first_packing(problem, homeless, removed)
    if best is not None and _count_moves(problem, best) == least:
        return best
    if len(problem.items) <= EXACT_ITEMS:
        below = None if best is None else _count_moves(problem, best)
        return _fewest_moves(problem.items, problem.bins, below) or best
    if best is not None and _count_moves(problem, best) <= _SLACK * least:
        return best
    return _improve_arrangement(problem, homeless, removed, best)


def _fewest_removals(problem: _PackingProblem, home: int) -> list[int]:
    """Return the largest items of a bin, as few as possible, without which the rest fits."""
    excess = problem.excess(home)
    removed = []
    for place in reversed(problem.items_at_home[home]):
        if excess <= 0:
            break
        removed.append(place)
        excess -= problem.items[place].load
    return removed


def _lighter_items(problem: _PackingProblem, home: int, removed: Sequence[int]) -> list[int]:
    """Return as many items as `removed`, but lighter ones where possible: light items fit elsewhere more easily."""
    chosen = list(removed)
    spare = sum(problem.items[place].load for place in chosen) - problem.excess(home)
    for number, place in enumerate(chosen):
        load, kept = problem.items[place].load, set(chosen)
        lighter = (
            each
            for each in problem.items_at_home[home]
            if each not in kept and load - problem.items[each].load <= spare
        )
        found = next(lighter, None)
        if found is not None and problem.items[found].load < load:
            spare -= load - problem.items[found].load
            chosen[number] = found
    return chosen


def _first_packing(
    problem: _PackingProblem, homeless: Sequence[int], removed: Sequence[Sequence[int]]
) -> tuple[int, ...] | None:
    """Return the first of some quick packings that fits, if necessary with one more light item that leaves."""
    lighter = [_lighter_items(problem, home, each) if each else [] for home, each in enumerate(removed)]
    choices = [*homeless, *chain(*removed)], [*homeless, *chain(*lighter)]
    for leaving, widest in product(choices, (False, True)):
        found = _pack_items(problem, leaving, widest=widest)
        if found is not None:
            return found
    moving = set(choices[1])
    lightest = sorted(range(len(problem.items)), key=lambda place: problem.items[place].load)
    for extra in islice((place for place in lightest if place not in moving), EXACT_ITEMS):
        found = _pack_items(problem, [*choices[1], extra], widest=False)
        if found is not None:
            return found
    return None


def _pack_items(problem: _PackingProblem, leaving: Sequence[int], *, widest: bool) -> tuple[int, ...] | None:
    """Place these items, largest first, into the fitting bin with the least free capacity, or into the widest bin."""
    gone = set(leaving)
    left = problem.free_capacities(
        place for place, item in enumerate(problem.items) if place not in gone and item.home >= 0
    )
    if min(left) < 0:
        return None
    rooms = sorted((room, number) for number, room in enumerate(left))
    where = [item.home for item in problem.items]
    for place in sorted(leaving, key=lambda each: (-problem.items[each].load, each)):
        load = problem.items[place].load
        least = bisect_left(rooms, (load, -1))
        if least == len(rooms):
            return None
        room, target = rooms.pop(-1 if widest else least)
        insort(rooms, (room - load, target))
        where[place] = target
    return tuple(where)


def _improve_arrangement(
    problem: _PackingProblem, homeless: Sequence[int], removed: Sequence[Sequence[int]], best: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """Return the better of `best` and an exact solution for 16 items, with all other items as in `best` or at home."""
    free = _relevant_items(problem, homeless, removed)
    fixed = [place for place in range(len(problem.items)) if place not in set(free)]
    where = [item.home for item in problem.items] if best is None else list(best)
    if any(where[place] < 0 for place in fixed):
        return best
    rooms = [each.capacity for each in problem.bins]
    for place in fixed:
        rooms[where[place]] -= problem.items[place].load
    if min(rooms) < 0:
        return best
    found = _fewest_moves([problem.items[place] for place in free], [Bin(room) for room in rooms])
    if found is None:
        return best
    for place, target in zip(free, found, strict=True):
        where[place] = target
    if best is None or _count_moves(problem, where) < _count_moves(problem, best):
        return tuple(where)
    return best


def _relevant_items(problem: _PackingProblem, homeless: Sequence[int], removed: Sequence[Sequence[int]]) -> list[int]:
    """Return up to 16 items: orphans, then the most relevant items of each overloaded bin, then the smallest."""
    free = list(homeless[:EXACT_ITEMS])
    queues = []
    for home, leaving in enumerate(removed):
        if leaving:
            lighter = _lighter_items(problem, home, leaving)
            queues.append(list(dict.fromkeys([*leaving, *lighter, *reversed(problem.items_at_home[home])])))
    while queues and len(free) < EXACT_ITEMS:
        queues = [queue for queue in queues if queue]
        free += [queue.pop(0) for queue in queues][: EXACT_ITEMS - len(free)]
    others = sorted(set(range(len(problem.items))) - set(free), key=lambda each: (problem.items[each].load, each))
    return free + others[: EXACT_ITEMS - len(free)]


def _count_moves(problem: _PackingProblem, where: Sequence[int]) -> int:
    return sum(target != item.home for target, item in zip(where, problem.items, strict=True))


def _spread_moves(problem: _PackingProblem, where: Sequence[int]) -> tuple[int, ...]:
    """Move the same items, each to the executor with the most free capacity then, if they all fit that way too."""
    leaving = [place for place, item in enumerate(problem.items) if where[place] != item.home]
    return _pack_items(problem, leaving, widest=True) or tuple(where)


def _fewest_moves(items: Sequence[Item], bins: Sequence[Bin], below: int | None = None) -> tuple[int, ...] | None:
    from situate.sharding.rebalancing.exact import fewest_moves  # loads NumPy, needed only if weights differ

    return fewest_moves(items, bins, below)
