"""What the pods in place hold of the nodes that they are on, unit by unit: this GPU, that one, not just so much of any.

An amount (`Snapshot.requested`) says how much of a resource is taken. Some resources come in units that cannot be
added up: half a GPU here and half a GPU there are not a whole one. A holding counts each unit of each node. It is
counted once over the pods in place, and then moves with each pod that comes or goes, as tallies do.

What a pod holds follows from the pod alone, mostly from an annotation that says which units it was given, so that
taking it away is exactly the opposite of putting it there. `AllotPlugin` is how a pod comes by its units.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from situate.framework.pod.pods import PodInfo
from situate.framework.results.verdict import Indices
from situate.framework.snapshot.labels import Ids

Units = NDArray[np.int64]
"""(units, nodes): how much of each unit is held."""
Placed = Callable[[], Iterable[tuple[PodInfo, int]]]
"""Pods, and the rows that they are on; those on none have a negative one."""


@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """What is counted."""

    key: Hashable
    """Equal keys count the same."""
    of: Callable[[PodInfo], Iterable[tuple[int, int]]]
    """Units and how much of each a pod in place holds; units count from 0."""


class Holdings:
    """Those that were asked for; mutable, of one owner."""

    def __init__(self) -> None:
        self._held: dict[Hashable, tuple[Holding, Units]] = {}

    def get(self, holding: Holding, width: int, rows: int, placed: Placed) -> Units:
        """(width, rows): the first units of each row. They go on changing with the owner."""
        found = self._held.get(holding.key)
        if found is None:
            held = np.zeros((width, rows), dtype=np.int64)
            for info, row in placed():
                if row >= 0:
                    held = _moved(held, holding.of(info), row, 1)
            found = self._held[holding.key] = (holding, held)
        if len(found[1]) < width:
            found = self._held[holding.key] = (holding, _widened(found[1], width))
        return found[1][:width]

    def move(self, info: PodInfo, row: int, sign: int) -> None:
        """A pod comes to the row (+1), or leaves it (-1)."""
        for key, (holding, held) in self._held.items():
            moved = _moved(held, holding.of(info), row, sign)
            if moved is not held:
                self._held[key] = (holding, moved)

    def move_each(self, infos: Sequence[PodInfo], rows: Indices) -> None:
        """Many pods come, each to the row beside it."""
        if self._held:
            for info, row in zip(infos, rows.tolist(), strict=True):
                self.move(info, row, 1)

    def copy(self) -> Holdings:
        return self._with(lambda held: held.copy())

    def at(self, rows: Indices) -> Holdings:
        """Of these rows alone, which may repeat."""
        return self._with(lambda held: held[:, rows])

    def moved(self, kept: Indices, rows: Ids, count: int) -> Holdings:
        """Over `count` rows: what was on each of `kept` is on the one of `rows` beside it."""

        def elsewhere(held: Units) -> Units:
            moved = np.zeros((len(held), count), dtype=np.int64)
            moved[:, rows] = held[:, kept]
            return moved

        return self._with(elsewhere)

    def _with(self, change: Callable[[Units], Units]) -> Holdings:
        twin = Holdings()
        twin._held = {key: (holding, change(held)) for key, (holding, held) in self._held.items()}
        return twin


def _moved(held: Units, units: Iterable[tuple[int, int]], row: int, sign: int) -> Units:
    """The same array, or a wider one."""
    for unit, amount in units:
        if unit >= len(held):
            held = _widened(held, unit + 1)
        held[unit, row] += sign * amount
    return held


def _widened(held: Units, width: int) -> Units:
    wider = np.zeros((width, held.shape[1]), dtype=np.int64)
    wider[: len(held)] = held
    return wider
