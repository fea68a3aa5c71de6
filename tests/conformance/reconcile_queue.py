"""Neon's reconcile queue: merge events of one object and return the due work (C23, C24). Only vectors need it.

vm decides on events as they arrive, so its process needs the back-off alone, `situate.vm.controller.backoff`. The
queue has no clock: the caller passes the time and chooses the objects.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kind(Enum):
    """Change of an object since its last run."""

    ADDED = "Added"
    MODIFIED = "Modified"
    DELETED = "Deleted"
    EPHEMERAL = "Ephemeral"
    """Added and deleted, in either order, between two runs."""


class ImpossibleEvents(Exception):
    """Two events that no watch can report in this order: an error of the caller."""


def merged(first: Kind, then: Kind) -> Kind:
    """Return the one event that replaces both. Raises `ImpossibleEvents`."""
    kinds = (first, then)
    if Kind.EPHEMERAL in kinds or (first is then and first is not Kind.MODIFIED):
        raise ImpossibleEvents(f"an object that was {first.value} cannot be {then.value} next")
    if first is Kind.MODIFIED:
        return then
    return first if then is Kind.MODIFIED else Kind.EPHEMERAL


@dataclass(frozen=True, slots=True)
class Work(Generic[K, V]):
    """One run for one object."""

    key: K
    kind: Kind
    object: V
    due: float


class ReconcileQueue(Generic[K, V]):
    """Mutable queue that returns the earliest work first, and equally early work in order of arrival.

    One run per key at a time. Times are in the caller's unit, and the queue only compares them.
    """

    def __init__(self) -> None:
        self._waiting: dict[K, Work[K, V]] = {}
        self._parked: dict[K, Work[K, V]] = {}
        """Events that arrived while the key was running."""
        self._running: dict[K, Work[K, V]] = {}
        self._order: list[tuple[float, int, K]] = []
        """A heap. It may hold outdated entries, because the work of a key may have become due earlier."""
        self._numbers = count()

    def add(self, key: K, kind: Kind, value: V, due: float) -> None:
        """Queue an event, merged with waiting work of the key: newest object, earliest time.

        Raises `ImpossibleEvents`.
        """
        work = Work(key, kind, value, due)
        if key in self._running:
            self._parked[key] = _joined(self._parked.get(key), work)
        else:
            self._put(_joined(self._waiting.get(key), work))

    def next(self, now: float) -> Work[K, V] | None:
        """Begin the run that is due first, or return None if no run is due. `finish` ends it."""
        if self.due_at is None or self._order[0][0] > now:
            return None
        work = self._waiting.pop(heappop(self._order)[2])
        self._running[work.key] = work
        return work

    def finish(self, key: K, retry_at: float | None = None) -> None:
        """End the run of the key.

        With `retry_at`, queue the same event again for that time, merged with events that arrived meanwhile.
        """
        work, parked = self._running.pop(key), self._parked.pop(key, None)
        if retry_at is not None:
            again = Work(key, work.kind, work.object, retry_at)
            parked = again if parked is None else _joined(again, parked)
        if parked is not None:
            self._put(parked)

    @property
    def due_at(self) -> float | None:
        """Time of the next run; None if no work waits."""
        while self._order:
            due, _, key = self._order[0]
            waiting = self._waiting.get(key)
            if waiting is not None and waiting.due == due:
                return due
            heappop(self._order)
        return None

    def __len__(self) -> int:
        """Return the number of waiting objects, without the running ones."""
        return len(self._waiting)

    def _put(self, work: Work[K, V]) -> None:
        known = self._waiting.get(work.key)
        self._waiting[work.key] = work
        if known is None or known.due != work.due:
            heappush(self._order, (work.due, next(self._numbers), work.key))


def _joined(first: Work[K, V] | None, then: Work[K, V]) -> Work[K, V]:
    if first is None:
        return then
    return Work(then.key, merged(first.kind, then.kind), then.object, min(first.due, then.due))
