"""The cheapest set of machines whose leaving covers a need in every resource (B18): exact for few, near it for many.

Costs are whole numbers here, so that sums do not depend on their order and ties are ties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

EXACT: Final = 12
"""So many candidates are tried in every combination."""
SMALL: Final = 3
"""Sets up to this size are all tried for their targets; of larger ones the cheapest `MOST_LARGE`."""
MOST_LARGE: Final = 200

Together: TypeAlias = Callable[[tuple[int, ...]], bool]
"""Whether the targets of these fit together."""
Freed: TypeAlias = NDArray[np.int64]
"""(candidates, resources)"""


def cheapest_cover(
    costs: Sequence[int], freed: Freed, need: Sequence[int], together: Together
) -> tuple[int, ...] | None:
    """Numbers of the chosen, ascending; None if no set covers the need. Of equals fewer, then the earlier ones."""
    wanted = np.array(need, dtype=np.int64)
    useful = [number for number in range(len(costs)) if ((freed[number] > 0) & (wanted > 0)).any()]
    if not useful or not (freed[useful].sum(axis=0) >= wanted).all():
        return None
    prices = np.array([costs[number] for number in useful], dtype=np.int64)
    if len(useful) > EXACT:
        kept = _greedy(prices, freed[useful], wanted, lambda chosen: together(tuple(useful[n] for n in chosen)))
        return None if kept is None else tuple(useful[number] for number in kept)
    found = _exact(prices, freed[useful], wanted, lambda chosen: together(tuple(useful[n] for n in chosen)))
    return None if found is None else tuple(useful[number] for number in found)


def _exact(
    costs: NDArray[np.int64], freed: Freed, need: NDArray[np.int64], together: Together
) -> tuple[int, ...] | None:
    sets, members = _subsets(len(costs))
    covering = np.flatnonzero((members @ freed >= need).all(axis=1))
    order = covering[np.argsort((members @ costs)[covering], kind="stable")]
    large = 0
    for index in order.tolist():
        if len(sets[index]) > SMALL:
            large += 1
            if large > MOST_LARGE:
                continue
        if together(sets[index]):
            return sets[index]
    return None


@lru_cache(maxsize=EXACT)
def _subsets(count: int) -> tuple[tuple[tuple[int, ...], ...], NDArray[np.int64]]:
    """All but the empty one, by size and then in order; and as rows of 0 and 1, (sets, candidates)."""
    sets = tuple(chosen for size in range(1, count + 1) for chosen in combinations(range(count), size))
    members = np.zeros((len(sets), count), dtype=np.int64)
    for row, chosen in enumerate(sets):
        members[row, list(chosen)] = 1
    members.setflags(write=False)
    return sets, members


def _greedy(
    costs: NDArray[np.int64], freed: Freed, need: NDArray[np.int64], together: Together
) -> tuple[int, ...] | None:
    """By cost per covered share, as long as targets fit together; then without those that are not needed."""
    chosen: list[int] = []
    short = np.flatnonzero(need > 0)
    left = need.copy()
    waiting = list(range(len(costs)))
    while (left > 0).any():
        shares = (np.minimum(freed[waiting], np.maximum(left, 0))[:, short] / need[short]).sum(axis=1)
        ratios = np.divide(costs[waiting], shares, out=np.full(len(waiting), np.inf), where=shares > 0)
        for position in np.argsort(ratios, kind="stable").tolist():
            number = waiting[position]
            if not np.isfinite(ratios[position]):
                return None
            if together(tuple(sorted((*chosen, number)))):
                chosen.append(number)
                left = left - freed[number]
                waiting.remove(number)
                break
        else:
            return None
    for number in sorted(chosen, key=lambda each: (-costs[each], -each)):
        rest = [each for each in chosen if each != number]
        if rest and (freed[rest].sum(axis=0) >= need).all():
            chosen = rest
    return tuple(sorted(chosen))
