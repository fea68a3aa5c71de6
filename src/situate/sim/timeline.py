"""The virtual clock and the heap of due calls: the single source of time in a simulated history.

Nothing runs by itself: a driver calls `advance`, so the same seed always gives the same order of events. Processes with
their own event loops are in `situate.testing.virtual_time.processes`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import msgspec


class ScheduledCall(msgspec.Struct, eq=False):
    """A call at `when` seconds. Calls of equal time run in the order in which they were added."""

    when: float
    call: Callable[[], object] | None

    def cancel(self) -> None:
        """Cancel the call. Do nothing if it has run already."""
        self.call = None


class Timeline:
    """Virtual seconds since the start of a history, and the planned calls."""

    def __init__(self, start: float = 0.0) -> None:
        self.now = start
        self._heap: list[tuple[float, int, ScheduledCall]] = []
        self._added = 0

    def call_at(self, when: float, call: Callable[[], object]) -> ScheduledCall:
        """Run `call` at `when`, or at once if that time is past."""
        self._added += 1
        if when < self.now:
            when = self.now
        due = ScheduledCall(when, call)
        heapq.heappush(self._heap, (when, self._added, due))
        return due

    def call_after(self, seconds: float, call: Callable[[], object]) -> ScheduledCall:
        """Run `call` in this many seconds."""
        return self.call_at(self.now + seconds, call)

    def next_due(self) -> float | None:
        """Return the time of the next call, or None if none is planned."""
        heap = self._heap
        while heap and heap[0][2].call is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def advance(self, until: float) -> bool:
        """Run the next call due no later than `until`. If there is none, advance to `until` and return False."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            when, _, due = heapq.heappop(heap)
            call = due.call
            if call is not None:
                due.call = None
                if when > self.now:
                    self.now = when
                call()
                return True
        self.now = max(self.now, until)
        return False
