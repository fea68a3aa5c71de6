"""Find the cheapest set of VMs that covers a need in every resource: exact for few VMs, near the optimum for many.

Costs are whole numbers, so sums do not depend on their order and ties are exact (B18).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

EXACT_LIMIT: Final = 12
"""Up to this number of candidates, all combinations are tried."""
SMALL_SET: Final = 3
"""Up to this size, all sets are checked for targets. Of larger sets, only the cheapest `MAX_LARGE_SETS` are."""
MAX_LARGE_SETS: Final = 30

FitTogether: TypeAlias = Callable[[tuple[int, ...]], bool]
"""Returns whether the targets of these candidates, in ascending order, fit together."""
Ints: TypeAlias = NDArray[np.int64]


def cheapest_cover(costs: Sequence[int], freed: Ints, need: Sequence[int], together: FitTogether) -> tuple[int, ...]:
    """Return the numbers of the chosen candidates, ascending. Empty if no set covers the need.

    Of equal sets, smaller ones win, then earlier ones. `freed` is (candidates, resources). With more than `EXACT_LIMIT`
    candidates, a greedy choice is made first. Then the best set is chosen from it and the most promising others.
    """
    wanted = np.array(need, dtype=np.int64)
    useful = np.flatnonzero((freed[:, wanted > 0] > 0).any(axis=1))
    if not useful.size or not (freed[useful].sum(axis=0) >= wanted).all():
        return ()
    prices = np.array(costs, dtype=np.int64)[useful]
    amounts = freed[useful]

    def fit(chosen: tuple[int, ...]) -> bool:
        return together(tuple(useful[list(chosen)].tolist()))

    found = (
        _exact_cover(prices, amounts, wanted, fit)
        if useful.size <= EXACT_LIMIT
        else _approximate_cover(prices, amounts, wanted, fit)
    )
    return tuple(useful[list(found)].tolist())


def _exact_cover(costs: Ints, freed: Ints, need: Ints, together: FitTogether) -> tuple[int, ...]:
    sets, members = _subsets(len(costs))
    covering = np.flatnonzero((members @ freed >= need).all(axis=1))
    order = covering[np.argsort((members @ costs)[covering], kind="stable")]
    large = 0
    apart: list[set[int]] = []  # sets whose targets do not fit together, so no larger one's do
    for index in order.tolist():
        chosen = sets[index]
        if any(each.issubset(chosen) for each in apart):
            continue
        large += len(chosen) > SMALL_SET
        if len(chosen) <= SMALL_SET or large <= MAX_LARGE_SETS:
            if together(chosen):
                return chosen
            apart.append(set(chosen))
    return ()


@lru_cache(maxsize=EXACT_LIMIT)
def _subsets(count: int) -> tuple[tuple[tuple[int, ...], ...], Ints]:
    """Return all subsets except the empty one, by size and then in order.

    The second value has them as rows of 0 and 1: (sets, candidates).
    """
    sets = tuple(chosen for size in range(1, count + 1) for chosen in combinations(range(count), size))
    members = np.zeros((len(sets), count), dtype=np.int64)
    begin = 0
    for size in range(1, count + 1):
        chosen = np.array(sets[begin : begin + comb(count, size)], dtype=np.int64)
        members[np.arange(begin, begin + len(chosen))[:, None], chosen] = 1
        begin += len(chosen)
    members.setflags(write=False)
    return sets, members


def _approximate_cover(costs: Ints, freed: Ints, need: Ints, together: FitTogether) -> tuple[int, ...]:
    short = need > 0
    greedy = _greedy_cover(costs, freed, need, together)
    whole = (np.minimum(freed, need)[:, short] / need[short]).sum(axis=1)
    promising = np.argsort(costs / np.maximum(whole, 1e-12), kind="stable").tolist()
    core = sorted(list(dict.fromkeys([*greedy, *promising]))[: max(EXACT_LIMIT, len(greedy))])
    if len(core) > EXACT_LIMIT:
        return greedy
    best = _exact_cover(
        costs[core], freed[core], need, lambda chosen: together(tuple(core[number] for number in chosen))
    )
    return tuple(core[number] for number in best) or greedy


def _greedy_cover(costs: Ints, freed: Ints, need: Ints, together: FitTogether) -> tuple[int, ...]:
    """Choose by cost per covered share, while targets fit together, then drop the unneeded candidates."""
    short = np.flatnonzero(need > 0)
    chosen: list[int] = []
    waiting = list(range(len(costs)))
    left = need.copy()
    while (left > 0).any():
        shares = (np.clip(left, 0, freed[waiting])[:, short] / need[short]).sum(axis=1)
        order = np.argsort(costs[waiting] / np.maximum(shares, 1e-12), kind="stable")
        promising = [waiting[at] for at in order.tolist() if shares[at] > 0]
        taken = next((number for number in promising if together(tuple(sorted((*chosen, number))))), None)
        if taken is None:
            return ()
        useless = promising[: promising.index(taken) + 1]  # a candidate that does not fit now fits with no larger set
        chosen.append(taken)
        waiting = [number for number in waiting if number not in useless]
        left = left - freed[taken]
    spare = freed[chosen].sum(axis=0) - need
    for number in sorted(chosen, key=lambda each: (-costs[each], -each)):
        if (freed[number] <= spare).all():
            chosen.remove(number)
            spare = spare - freed[number]
    return tuple(sorted(chosen))
