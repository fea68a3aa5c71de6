"""Work queue of the machinery: FIFO, each item once, with delays and a back-off per item.

Upstream: client-go's workqueue with its default item-exponential limiter (5 ms doubling up to 1000 s). Time is virtual:
the caller passes `now`.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TypeAlias

from situate.cluster.controllers.machinery.tables import Key

Item: TypeAlias = tuple[str, Key]
"""Controller and key."""

_FIRST_BACK_OFF = 0.005
_LAST_BACK_OFF = 1000.0


class WorkQueue:
    def __init__(self) -> None:
        self._ready: deque[Item] = deque()
        self._waiting: set[Item] = set()
        self._due: dict[Item, float] = {}
        self._heap: list[tuple[float, int, Item]] = []
        self._pushed = 0
        self._failures: dict[Item, int] = {}

    def add(self, item: Item) -> None:
        if item not in self._waiting:
            self._waiting.add(item)
            self._ready.append(item)

    def add_at(self, item: Item, when: float) -> None:
        """Add an item at a time. The earlier of two times counts."""
        known = self._due.get(item)
        if known is not None and known <= when:
            return
        self._due[item] = when
        self._pushed += 1
        heapq.heappush(self._heap, (when, self._pushed, item))

    def add_rate_limited(self, item: Item, now: float) -> None:
        """Add an item after its back-off, which doubles each time until `forget`."""
        failures = self._failures.get(item, 0)
        self._failures[item] = failures + 1
        self.add_at(item, now + min(_FIRST_BACK_OFF * 2 ** min(failures, 30), _LAST_BACK_OFF))

    def forget(self, item: Item) -> None:
        """Reset the back-off of an item that succeeded."""
        self._failures.pop(item, None)

    def pop(self, now: float) -> Item | None:
        self._move_due_items(now)
        if not self._ready:
            return None
        item = self._ready.popleft()
        self._waiting.discard(item)
        return item

    def next_due(self) -> float | None:
        """Return the time of the first delayed item; minus infinity if an item is ready, None if the queue is empty."""
        if self._ready:
            return float("-inf")
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _move_due_items(self, now: float) -> None:
        while self._heap and self._heap[0][0] <= now:
            when, _, item = heapq.heappop(self._heap)
            if self._due.get(item) == when:
                del self._due[item]
                self.add(item)
