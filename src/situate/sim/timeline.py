"""The virtual clock and the heap of what is due: the one source of time in a simulated history.

Nothing here runs by itself: a driver calls `advance`, so the same seed gives the same order of events everywhere.
Processes with event loops of their own are `situate.testing.virtual_time.processes`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import msgspec


class Due(msgspec.Struct, eq=False):
    """Something that happens at `when` seconds; things of equal time run in the order in which they were added."""

    when: float
    call: Callable[[], object] | None

    def cancel(self) -> None:
        """It will not happen. Harmless when it already has."""
        self.call = None


class Timeline:
    """Virtual seconds since the start of a history, and what is to happen when."""

    def __init__(self, start: float = 0.0) -> None:
        self.now = start
        self._heap: list[tuple[float, int, Due]] = []
        self._added = 0

    def at(self, when: float, call: Callable[[], object]) -> Due:
        """Runs `call` at `when`, or at once if that is past."""
        self._added += 1
        if when < self.now:
            when = self.now
        due = Due(when, call)
        heapq.heappush(self._heap, (when, self._added, due))
        return due

    def after(self, seconds: float, call: Callable[[], object]) -> Due:
        """Runs `call` that many seconds from now."""
        return self.at(self.now + seconds, call)

    def next_due(self) -> float | None:
        """When the next thing happens; None when nothing is planned."""
        heap = self._heap
        while heap and heap[0][2].call is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def advance(self, until: float) -> bool:
        """Moves on to the next thing due no later than `until` and runs it; with none left, to `until` and False."""
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
