"""The reconcile queue: what two events about one object come to, how long a failure waits, what is due (C23, C24).

A structure without a clock: whoever drives it says what time it is. Objects are whatever the caller puts in. The
process itself goes by `Backoff` alone: events are decided on as they come, and only writes wait (decision 0019).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

FIRST_NS: Final = 100_000_000
FACTOR: Final = 2.03
LONGEST_NS: Final = 60_000_000_000


class Kind(Enum):
    """What happened to an object since it was last handled."""

    ADDED = "Added"
    MODIFIED = "Modified"
    DELETED = "Deleted"
    EPHEMERAL = "Ephemeral"
    """It came and went, or went and came, unseen."""


class ImpossibleEvents(Exception):
    """Two events that no watch can give in this order: whoever put them in is wrong."""


def merged(first: Kind, then: Kind) -> Kind:
    """The one event that stands for both. Raises `ImpossibleEvents`."""
    kinds = (first, then)
    if Kind.EPHEMERAL in kinds or (first is then and first is not Kind.MODIFIED):
        raise ImpossibleEvents(f"an object that was {first.value} cannot be {then.value} next")
    if first is Kind.MODIFIED:
        return then
    return first if then is Kind.MODIFIED else Kind.EPHEMERAL


@dataclass(frozen=True, slots=True)
class Backoff:
    """Of one object. Times are whole nanoseconds."""

    failures: int = 0
    """In a row."""
    stored_ns: int = 0
    """What the last failure left, from which the next one grows."""

    def failed(self, retry_ns: int = 0) -> tuple[Backoff, int]:
        """Another failure, and how long to wait. `retry_ns` is what the handler asked for; 0 if it did not."""
        grown = FIRST_NS if not self.failures else min(int(self.stored_ns * FACTOR), LONGEST_NS)
        stored = min(grown, retry_ns) if retry_ns else grown
        return Backoff(self.failures + 1, stored), max(stored, retry_ns)


NO_FAILURE: Final = Backoff()
"""Also what success leaves."""


@dataclass(frozen=True, slots=True)
class Work(Generic[K, V]):
    """One run for one object."""

    key: K
    kind: Kind
    object: V
    due: float


class ReconcileQueue(Generic[K, V]):
    """Mutable. The earliest is next, of equally early ones the one that came first; one run a key at a time.

    Times are of the caller's unit, and only ever compared.
    """

    def __init__(self) -> None:
        self._waiting: dict[K, Work[K, V]] = {}
        self._parked: dict[K, Work[K, V]] = {}
        """What came while the key was running."""
        self._running: dict[K, Work[K, V]] = {}
        self._order: list[tuple[float, int, K]] = []
        """A heap, with entries that are outdated: the work of a key may have become due earlier."""
        self._numbers = count()

    def add(self, key: K, kind: Kind, value: V, due: float) -> None:
        """Merges with what is there of the key: newest object, earliest time. Raises `ImpossibleEvents`."""
        work = Work(key, kind, value, due)
        if key in self._running:
            self._parked[key] = _joined(self._parked.get(key), work)
        else:
            self._put(_joined(self._waiting.get(key), work))

    def next(self, now: float) -> Work[K, V] | None:
        """Begins the run that is due first; None if none is. `finish` ends it."""
        if self.due_at is None or self._order[0][0] > now:
            return None
        work = self._waiting.pop(heappop(self._order)[2])
        self._running[work.key] = work
        return work

    def finish(self, key: K, retry_at: float | None = None) -> None:
        """The run of the key is over. With `retry_at` the same event is handled again then, merged with what came."""
        work, parked = self._running.pop(key), self._parked.pop(key, None)
        if retry_at is not None:
            again = Work(key, work.kind, work.object, retry_at)
            parked = again if parked is None else _joined(again, parked)
        if parked is not None:
            self._put(parked)

    @property
    def due_at(self) -> float | None:
        """When the next run is due; None if nothing waits."""
        while self._order:
            due, _, key = self._order[0]
            waiting = self._waiting.get(key)
            if waiting is not None and waiting.due == due:
                return due
            heappop(self._order)
        return None

    def __len__(self) -> int:
        """So many objects wait, those that run not counted."""
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
