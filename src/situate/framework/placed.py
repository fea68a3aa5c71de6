"""The pods in place, as columns: one slot a pod."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from situate.framework.pods import PodInfo
from situate.framework.verdict import Indices

A = TypeVar("A", bound=np.generic)

NOWHERE = -1
"""The node of a free slot."""


class PlacedPods:
    """Mutable, of one owner; grows by doubling."""

    def __init__(self) -> None:
        self._infos: list[PodInfo | None] = []
        self._slot: dict[str, int] = {}
        self._free: list[int] = []
        self._node: NDArray[np.int32] = np.full(16, NOWHERE, dtype=np.int32)
        self._priority: NDArray[np.int64] = np.zeros(16, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._slot)

    def __contains__(self, uid: str) -> bool:
        return uid in self._slot

    def get(self, uid: str) -> tuple[PodInfo, int] | None:
        """The pod and its node."""
        slot = self._slot.get(uid)
        if slot is None:
            return None
        info = self._infos[slot]
        assert info is not None
        return info, int(self._node[slot])

    def add(self, info: PodInfo, node: int) -> None:
        """The pod must not be here yet."""
        if info.uid in self._slot:
            raise ValueError(f"pod {info} is in place already")
        if self._free:
            slot = self._free.pop()
            self._infos[slot] = info
        else:
            slot = len(self._infos)
            self._infos.append(info)
            self._grow(slot + 1)
        self._slot[info.uid] = slot
        self._node[slot] = node
        self._priority[slot] = info.priority

    def extend(self, infos: Sequence[PodInfo], nodes: NDArray[np.integer[Any]]) -> None:
        """Many at once; none of them may be here yet."""
        begin, end = len(self._infos), len(self._infos) + len(infos)
        self._grow(end)
        self._slot.update(zip([info.uid for info in infos], range(begin, end), strict=True))
        if len(self._slot) + len(self._free) != end:
            raise ValueError("a pod is in place already")
        self._infos += infos
        self._node[begin:end] = nodes
        self._priority[begin:end] = [info.priority for info in infos]

    def remove(self, uid: str) -> tuple[PodInfo, int]:
        """The pod and the node that it was on; `KeyError` if it is not here."""
        slot = self._slot.pop(uid)
        info = self._infos[slot]
        assert info is not None
        node = int(self._node[slot])
        self._infos[slot] = None
        self._node[slot] = NOWHERE
        self._free.append(slot)
        return info, node

    def on(self, node: int) -> list[PodInfo]:
        """The pods on one node, in the order in which they came, as far as slots were not used again."""
        return [self._info(slot) for slot in np.flatnonzero(self._nodes == node).tolist()]

    def __iter__(self) -> Iterator[tuple[PodInfo, int]]:
        for slot in self._slot.values():
            yield self._info(slot), int(self._node[slot])

    def columns(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Node (`NOWHERE` for a free slot) and priority of each slot; `info_at` gives the pod."""
        return self._nodes, self._priority[: len(self._infos)]

    def info_at(self, slots: Indices) -> list[PodInfo]:
        return [self._info(slot) for slot in slots.tolist()]

    def moved(self, row_of: NDArray[np.int32]) -> PlacedPods:
        """The same pods on other nodes: `row_of` each node, `NOWHERE` for one that is gone, as the last entry is."""
        moved = PlacedPods()
        nodes = row_of[self._nodes]
        slots = np.flatnonzero(nodes >= 0)
        if len(slots):
            moved.extend(self.info_at(slots), nodes[slots])
        return moved

    def copy(self) -> PlacedPods:
        twin = PlacedPods()
        slots = np.flatnonzero(self._nodes >= 0)
        if len(slots):
            twin.extend(self.info_at(slots), self._nodes[slots])
        return twin

    @property
    def _nodes(self) -> NDArray[np.int32]:
        return self._node[: len(self._infos)]

    def _info(self, slot: int) -> PodInfo:
        info = self._infos[slot]
        assert info is not None
        return info

    def _grow(self, size: int) -> None:
        if size > len(self._node):
            room = max(size, 2 * len(self._node))
            self._node = _grown(self._node, room, NOWHERE)
            self._priority = _grown(self._priority, room, 0)


def _grown(column: NDArray[A], room: int, fill: int) -> NDArray[A]:
    bigger = np.full(room, fill, dtype=column.dtype)
    bigger[: len(column)] = column
    return bigger
