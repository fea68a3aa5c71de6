"""The placed Pods, as columns: one slot per Pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from situate.framework.pod.pods import PodInfo, PodTemplate
from situate.framework.results.verdict import Indices, Mask

A = TypeVar("A", bound=np.generic)

NO_NODE: Final = -1
"""The node of a free slot."""
NOT_STARTED: Final = float("inf")


class PlacedPods:
    """Slots of the placed Pods; mutable, of one owner. The columns grow by doubling."""

    def __init__(self) -> None:
        self._infos: list[PodInfo | None] = []
        self._slot: dict[str, int] = {}
        self._free: list[int] = []
        self._node: NDArray[np.int32] = np.full(16, NO_NODE, dtype=np.int32)
        self._priority: NDArray[np.int64] = np.zeros(16, dtype=np.int64)
        # Columns that only preemption needs are filled on demand: for slots from `_filled_slots` on, and for those in
        # `_stale`.
        self._filled_slots = 0
        self._stale: list[int] = []
        self._started: NDArray[np.float64] = np.zeros(0, dtype=np.float64)
        self._template: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._identity: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._templates: dict[PodTemplate, int] = {}
        self._identities: dict[tuple[str, int], int] = {}
        self._examples: list[PodInfo] = []
        self._requests: dict[int, NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self._slot)

    def __contains__(self, uid: str) -> bool:
        return uid in self._slot

    def get(self, uid: str) -> tuple[PodInfo, int] | None:
        """Return the Pod and its node."""
        slot = self._slot.get(uid)
        if slot is None:
            return None
        info = self._infos[slot]
        assert info is not None
        return info, int(self._node[slot])

    def add(self, info: PodInfo, node: int) -> None:
        """Add a Pod that is not placed yet."""
        if info.uid in self._slot:
            raise ValueError(f"pod {info} is already placed")
        if self._free:
            slot = self._free.pop()
            self._infos[slot] = info
            if slot < self._filled_slots:
                self._stale.append(slot)
        else:
            slot = len(self._infos)
            self._infos.append(info)
            if slot >= len(self._node):
                self._grow(slot + 1)
        self._slot[info.uid] = slot
        self._node[slot] = node
        self._priority[slot] = info.priority

    def extend(self, infos: Sequence[PodInfo], nodes: NDArray[np.integer[Any]], priority: int | None = None) -> None:
        """Add many Pods that are not placed yet. `priority` is their common priority, if they have one."""
        begin, end = len(self._infos), len(self._infos) + len(infos)
        self._grow(end)
        self._slot.update(zip([info.uid for info in infos], range(begin, end), strict=True))
        if len(self._slot) + len(self._free) != end:
            raise ValueError("a pod is already placed")
        self._infos += infos
        self._node[begin:end] = nodes
        self._priority[begin:end] = [info.priority for info in infos] if priority is None else priority

    def replace(self, info: PodInfo) -> None:
        """Replace a Pod that keeps its node, template and priority; `KeyError` if it is not placed."""
        slot = self._slot[info.uid]
        self._infos[slot] = info
        if slot < self._filled_slots:
            self._stale.append(slot)

    def remove(self, uid: str) -> tuple[PodInfo, int]:
        """Remove a Pod and return it with its node; `KeyError` if it is not placed."""
        slot = self._slot.pop(uid)
        info = self._infos[slot]
        assert info is not None
        node = int(self._node[slot])
        self._infos[slot] = None
        self._node[slot] = NO_NODE
        self._free.append(slot)
        return info, node

    def pods_on(self, node: int) -> list[PodInfo]:
        """Return the Pods on one node in the order of arrival, except where slots were reused."""
        return [self._info(slot) for slot in np.flatnonzero(self._nodes == node).tolist()]

    def __iter__(self) -> Iterator[tuple[PodInfo, int]]:
        for slot in self._slot.values():
            yield self._info(slot), int(self._node[slot])

    def columns(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return node (`NO_NODE` for a free slot) and priority of each slot; `info_at` returns the Pod."""
        return self._nodes, self._priority[: len(self._infos)]

    @property
    def start_times(self) -> NDArray[np.float64]:
        """The start time of the Pod in each slot, as `start_time`."""
        self._fill_columns()
        return self._started[: len(self._infos)]

    def kinds(self, slots: Indices) -> NDArray[np.int32]:
        """Return the template number of the Pod in each of these slots."""
        self._fill_columns()
        return self._template.take(slots)

    def requests_by_kind(self, column: int) -> NDArray[np.int64]:
        """Return (kinds,): the request of each template for the resource with this column."""
        self._fill_columns()
        known = self._requests.get(column)
        if known is None or len(known) < len(self._templates):
            requests = (dict(template.columns).get(column, 0) for template in self._templates)
            known = self._requests[column] = np.fromiter(requests, np.int64, len(self._templates))
        return known

    def matching_slots(self, holds: Callable[[PodInfo], bool], slots: Indices) -> Mask:
        """Return for which of these slots `holds` is true. It must depend only on a Pod's namespace and labels."""
        self._fill_columns()
        return np.array([holds(info) for info in self._examples], dtype=np.bool_).take(self._identity.take(slots))

    def info_at(self, slots: Indices) -> list[PodInfo]:
        return [self._info(slot) for slot in slots.tolist()]

    def remap_nodes(self, row_of: NDArray[np.int32]) -> PlacedPods:
        """Return the same Pods on other nodes. `row_of` maps each node.

        A removed node maps to `NO_NODE`, as does the last entry.
        """
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

    def _fill_columns(self) -> None:
        """Fill the columns in for all changes since the last call."""
        if len(self._started) < len(self._node):
            self._started = _grow_column(self._started, len(self._node), 0)
            self._template = _grow_column(self._template, len(self._node), 0)
            self._identity = _grow_column(self._identity, len(self._node), 0)
        for slot in (*self._stale, *range(self._filled_slots, len(self._infos))):
            info = self._infos[slot]
            if info is not None:
                self._started[slot] = start_time(info)
                self._template[slot] = self._templates.setdefault(info.template, len(self._templates))
                identity = info.namespace, id(info.labels)
                number = self._identities.get(identity)
                if number is None:
                    number = self._identities[identity] = len(self._examples)
                    self._examples.append(info)
                self._identity[slot] = number
        self._stale.clear()
        self._filled_slots = len(self._infos)

    def _info(self, slot: int) -> PodInfo:
        info = self._infos[slot]
        assert info is not None
        return info

    def _grow(self, size: int) -> None:
        if size > len(self._node):
            room = max(size, 2 * len(self._node))
            self._node = _grow_column(self._node, room, NO_NODE)
            self._priority = _grow_column(self._priority, room, 0)


def start_time(info: PodInfo) -> float:
    """Return seconds since the epoch; infinite, later than any other, until a kubelet has reported the Pod."""
    started = info.started
    return NOT_STARTED if started is None else started.timestamp()


def _grow_column(column: NDArray[A], room: int, fill: int) -> NDArray[A]:
    bigger = np.full(room, fill, dtype=column.dtype)
    bigger[: len(column)] = column
    return bigger
