"""The fewest moves that put up to 16 items into bins with limited room, by dynamic programming over their subsets.

The bins are filled one after the other. Of all ways to place a subset with so many moves, only the one matters that has
come to the earliest bin, and there has used the least room: whatever can follow another one can follow it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from situate.sharding.rebalancing.bins import Bin, Item

_Floats = NDArray[np.float64]


def fewest_moves(items: Sequence[Item], bins: Sequence[Bin], below: int | None = None) -> tuple[int, ...] | None:
    """The bin of each item, most of them at home; None if they do not fit with fewer than `below` moves.

    None for `below`: with any number. Meant for up to `EXACT_ITEMS` items; every further one doubles time and memory.
    """
    if not items:
        return () if below is None or below > 0 else None
    kept = _that_matter(items, bins)
    place = {number: position for position, number in enumerate(kept)}
    homes = [place.get(item.home, -1) for item in items]
    search = _Search([item.load for item in items], homes, [bins[number].room for number in kept])
    if below is None:
        # whether they fit at all is known sooner than with how few moves
        below = len(items) + 1 if search.fits() else 0
    found = search.arrangement(below)
    return None if found is None else tuple(kept[position] for position in found)


def _that_matter(items: Sequence[Item], bins: Sequence[Bin]) -> list[int]:
    """Homes, and of the other bins the roomiest: no more of them than there are items can be of use."""
    homes = {item.home for item in items if item.home >= 0}
    others = sorted(set(range(len(bins))) - homes, key=lambda number: (-bins[number].room, number))
    return sorted(homes | set(others[: len(items)]))


class _Search:
    """A state is a code: the number of the bin that is being filled times `_span`, plus what is in it."""

    def __init__(self, loads: Sequence[float], homes: Sequence[int], rooms: Sequence[float]) -> None:
        self._loads, self._homes = loads, homes
        self._rooms: _Floats = np.array(rooms, dtype=np.float64)
        self._span = 2 * max(1.0, float(self._rooms.max()), *loads)
        self._next = [self._next_bins(load) for load in loads]
        self._whole = (1 << len(loads)) - 1
        sizes = np.array([number.bit_count() for number in range(self._whole + 1)])
        self._levels = [np.flatnonzero(sizes == size) for size in range(len(loads))]

    def _next_bins(self, load: float) -> NDArray[np.int64]:
        """For each bin the first after it that the item fits into; the number of bins if there is none."""
        size = len(self._rooms)
        found = np.full(size, size, dtype=np.int64)
        for number in range(size - 2, -1, -1):
            found[number] = number + 1 if self._rooms[number + 1] >= load else found[number + 1]
        return found

    def fits(self) -> bool:
        """Whether there is any arrangement."""
        return bool(np.isfinite(self._filled(1, [0] * len(self._loads))[0, self._whole]))

    def arrangement(self, below: int) -> list[int] | None:
        """The bin of each item, with the fewest moves; None if fewer than `below` are not enough."""
        if below <= 0:
            return None
        best = self._filled(below, [1] * len(self._loads))
        possible = np.flatnonzero(np.isfinite(best[:, self._whole]))
        if not len(possible):
            return None
        row, mask = int(possible[0]), self._whole
        where = [0] * len(self._loads)
        while mask:
            row, mask, item, number = self._before(best, row, mask)
            where[item] = number
        return where

    def _filled(self, rows: int, move_costs: Sequence[int]) -> _Floats:
        """(moves, subsets): the best code; inf where there is none. Subsets by their bits."""
        best = np.full((rows, self._whole + 1), np.inf)
        best[0, 0] = 0.0
        for level in self._levels:
            for item in range(len(self._loads)):
                masks = level[(level >> item) & 1 == 0]
                if not len(masks):
                    continue
                after = masks | (1 << item)
                stayed, moved = self._codes(best[:, masks], item)
                cost = move_costs[item]
                best[:, after] = np.minimum(best[:, after], stayed)
                best[cost:, after] = np.minimum(best[cost:, after], moved[: rows - cost])
        return best

    def _codes(self, codes: _Floats, item: int) -> tuple[_Floats, _Floats]:
        """What follows from states by putting the item at home, and elsewhere; inf where that cannot be."""
        load, home = self._loads[item], self._homes[item]
        known = np.isfinite(codes)
        number = (np.where(known, codes, 0.0) // self._span).astype(np.int64)
        used = np.where(known, codes - number * self._span, np.inf)
        here = np.where(used + load <= self._rooms[number], codes + load, np.inf)
        later = self._next[item][number]
        elsewhere = np.where(known & (later < len(self._rooms)), later * self._span + load, np.inf)
        if home < 0:
            return np.full_like(codes, np.inf), np.minimum(here, elsewhere)
        fits_home = known & (number < home) & (self._rooms[home] >= load)
        stayed = np.where(number == home, here, np.where(fits_home, home * self._span + load, np.inf))
        return stayed, np.minimum(np.where(number == home, np.inf, here), elsewhere)

    def _before(self, best: _Floats, row: int, mask: int) -> tuple[int, int, int, int]:
        """The state that this one followed from, the item that was put, and where."""
        code = best[row, mask]
        for item in range(len(self._loads)):
            if mask >> item & 1:
                before = mask & ~(1 << item)
                for cost in (0, 1):
                    if (
                        row >= cost
                        and self._codes(best[row - cost : row - cost + 1, [before]], item)[cost][0, 0] == code
                    ):
                        return row - cost, before, item, int(code // self._span)
        raise AssertionError(f"no state leads to {mask:b} with {row} moves")
