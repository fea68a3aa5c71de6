"""Units that placed Pods hold on their nodes, such as one specific GPU.

An amount (`Snapshot.requested`) says how much of a resource is allocated. Some resources have units that cannot be
added: half a GPU on one device and half on another are not a whole GPU. A holding counts each unit of each node. It is
counted once over the placed Pods, and then updated with each Pod that comes or goes, like tallies.

A Pod's units follow from the Pod alone, mostly from an annotation that names its allocated units. Removing a Pod is
therefore the exact inverse of adding it. `AllotPlugin` allocates the units.
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
"""(units, nodes): how much of each unit is allocated."""
PlacedPodLister = Callable[[], Iterable[tuple[PodInfo, int]]]
"""Returns Pods with their rows; a negative row means that the Pod is on none."""


@dataclass(frozen=True, slots=True, eq=False)
class AllocationDefinition:
    """The definition of a count."""

    key: Hashable
    """Equal keys count the same."""
    units_of: Callable[[PodInfo], Iterable[tuple[int, int]]]
    """Returns the units that a placed Pod holds, numbered from 0, and the amount of each."""


class DeviceAllocations:
    """The requested holdings of one owner; mutable."""

    def __init__(self) -> None:
        self._allocated: dict[Hashable, tuple[AllocationDefinition, Units]] = {}

    def get(self, holding: AllocationDefinition, width: int, rows: int, placed: PlacedPodLister) -> Units:
        """Return (width, rows): the first units of each row. The array changes as its owner changes."""
        found = self._allocated.get(holding.key)
        if found is None:
            held = np.zeros((width, rows), dtype=np.int64)
            for info, row in placed():
                if row >= 0:
                    held = _add_units(held, holding.units_of(info), row, 1)
            found = self._allocated[holding.key] = (holding, held)
        if len(found[1]) < width:
            found = self._allocated[holding.key] = (holding, _widen(found[1], width))
        return found[1][:width]

    def move(self, info: PodInfo, row: int, sign: int) -> None:
        """Add a Pod to the row (+1), or remove it (-1)."""
        for key, (holding, held) in self._allocated.items():
            moved = _add_units(held, holding.units_of(info), row, sign)
            if moved is not held:
                self._allocated[key] = (holding, moved)

    def move_each(self, infos: Sequence[PodInfo], rows: Indices) -> None:
        """Add many Pods, each to the row at the same position."""
        if self._allocated:
            for info, row in zip(infos, rows.tolist(), strict=True):
                self.move(info, row, 1)

    def copy(self) -> DeviceAllocations:
        return self._map_units(lambda held: held.copy())

    def select_rows(self, rows: Indices) -> DeviceAllocations:
        """Return the holdings of these rows only. Rows may repeat."""
        return self._map_units(lambda held: held[:, rows])

    def remap_rows(self, kept: Indices, rows: Ids, count: int) -> DeviceAllocations:
        """Return holdings over `count` rows: each row of `kept` moves to the row of `rows` at the same position."""

        def elsewhere(held: Units) -> Units:
            moved = np.zeros((len(held), count), dtype=np.int64)
            moved[:, rows] = held[:, kept]
            return moved

        return self._map_units(elsewhere)

    def _map_units(self, change: Callable[[Units], Units]) -> DeviceAllocations:
        twin = DeviceAllocations()
        twin._allocated = {key: (holding, change(held)) for key, (holding, held) in self._allocated.items()}
        return twin


def _add_units(held: Units, units: Iterable[tuple[int, int]], row: int, sign: int) -> Units:
    """Return the same array, or a wider one."""
    for unit, amount in units:
        if unit >= len(held):
            held = _widen(held, unit + 1)
        held[unit, row] += sign * amount
    return held


def _widen(held: Units, width: int) -> Units:
    wider = np.zeros((width, held.shape[1]), dtype=np.int64)
    wider[: len(held)] = held
    return wider
