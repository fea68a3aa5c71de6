"""Pack up to 16 items into bins of limited capacity with the fewest moves, by dynamic programming over subsets.

The bins are filled one after the other. For each subset and number of moves, only one way to place the subset matters.
It has reached the earliest bin, and uses the least of that bin. Every continuation of another way can also follow this
one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from situate.sharding.rebalancing.bins import Bin, Item

_Floats = NDArray[np.float64]


def fewest_moves(items: Sequence[Item], bins: Sequence[Bin], below: int | None = None) -> tuple[int, ...] | None:
    """Return the bin of each item with the fewest moves; None if fewer than `below` moves are not enough.

    `below` None: any number of moves. Meant for up to `EXACT_ITEMS` items; each further one doubles time and memory.
    """
    if not items:
        return () if below is None or below > 0 else None
    kept = _useful_bins(items, bins)
    place = {number: position for position, number in enumerate(kept)}
    homes = [place.get(item.home, -1) for item in items]
    search = _Search([item.load for item in items], homes, [bins[number].capacity for number in kept])
    if below is None:
        # checking whether they fit at all is faster than finding the fewest moves
        below = len(items) + 1 if search.fits() else 0
    found = search.arrangement(below)
    return None if found is None else tuple(kept[position] for position in found)


def _useful_bins(items: Sequence[Item], bins: Sequence[Bin]) -> list[int]:
    """Return all homes, and the largest other bins: at most as many as there are items can be useful."""
    homes = {item.home for item in items if item.home >= 0}
    others = sorted(set(range(len(bins))) - homes, key=lambda number: (-bins[number].capacity, number))
    return sorted(homes | set(others[: len(items)]))


class _Search:
    """The search. A state is a number: the index of the bin that is being filled times `_span`, plus its load."""

    def __init__(self, loads: Sequence[float], homes: Sequence[int], rooms: Sequence[float]) -> None:
        self._loads, self._homes = loads, homes
        self._capacities: _Floats = np.array(rooms, dtype=np.float64)
        self._span = 2 * max(1.0, float(self._capacities.max()), *loads)
        self._next = [self._next_bins(load) for load in loads]
        self._whole = (1 << len(loads)) - 1
        sizes = np.array([number.bit_count() for number in range(self._whole + 1)])
        self._levels = [np.flatnonzero(sizes == size) for size in range(len(loads))]

    def _next_bins(self, load: float) -> NDArray[np.int64]:
        """Return, for each bin, the first later bin into which the item fits; the number of bins if there is none."""
        size = len(self._capacities)
        found = np.full(size, size, dtype=np.int64)
        for number in range(size - 2, -1, -1):
            found[number] = number + 1 if self._capacities[number + 1] >= load else found[number + 1]
        return found

    def fits(self) -> bool:
        """Return whether the items fit at all."""
        return bool(np.isfinite(self._best_states(1, [0] * len(self._loads))[0, self._whole]))

    def arrangement(self, below: int) -> list[int] | None:
        """Return the bin of each item, with the fewest moves; None if fewer than `below` moves are not enough."""
        if below <= 0:
            return None
        best = self._best_states(below, [1] * len(self._loads))
        possible = np.flatnonzero(np.isfinite(best[:, self._whole]))
        if not len(possible):
            return None
        row, mask = int(possible[0]), self._whole
        where = [0] * len(self._loads)
        while mask:
            row, mask, item, number = self._previous_state(best, row, mask)
            where[item] = number
        return where

    def _best_states(self, rows: int, move_costs: Sequence[int]) -> _Floats:
        """Return the best state of shape (moves, subsets), by the bits of a subset; inf if there is none."""
        best = np.full((rows, self._whole + 1), np.inf)
        best[0, 0] = 0.0
        for level in self._levels:
            for item in range(len(self._loads)):
                masks = level[(level >> item) & 1 == 0]
                if not len(masks):
                    continue
                after = masks | (1 << item)
                stayed, moved = self._next_states(best[:, masks], item)
                cost = move_costs[item]
                best[:, after] = np.minimum(best[:, after], stayed)
                best[cost:, after] = np.minimum(best[cost:, after], moved[: rows - cost])
        return best

    def _next_states(self, codes: _Floats, item: int) -> tuple[_Floats, _Floats]:
        """Return the states after the item is put at home, and elsewhere; inf where this is impossible."""
        load, home = self._loads[item], self._homes[item]
        known = np.isfinite(codes)
        number = (np.where(known, codes, 0.0) // self._span).astype(np.int64)
        used = np.where(known, codes - number * self._span, np.inf)
        here = np.where(used + load <= self._capacities[number], codes + load, np.inf)
        later = self._next[item][number]
        elsewhere = np.where(known & (later < len(self._capacities)), later * self._span + load, np.inf)
        if home < 0:
            return np.full_like(codes, np.inf), np.minimum(here, elsewhere)
        fits_home = known & (number < home) & (self._capacities[home] >= load)
        stayed = np.where(number == home, here, np.where(fits_home, home * self._span + load, np.inf))
        return stayed, np.minimum(np.where(number == home, np.inf, here), elsewhere)

    def _previous_state(self, best: _Floats, row: int, mask: int) -> tuple[int, int, int, int]:
        """Return the previous state, the item that led to this state, and its bin."""
        code = best[row, mask]
        for item in range(len(self._loads)):
            if mask >> item & 1:
                before = mask & ~(1 << item)
                for cost in (0, 1):
                    if (
                        row >= cost
                        and self._next_states(best[row - cost : row - cost + 1, [before]], item)[cost][0, 0] == code
                    ):
                        return row - cost, before, item, int(code // self._span)
        raise AssertionError(f"no state leads to {mask:b} with {row} moves")
