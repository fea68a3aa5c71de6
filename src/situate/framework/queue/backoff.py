"""The delay before a rejected Pod's next attempt (upstream backend/queue/backoff_queue.go)."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count
from math import floor
from typing import Any, Final

from situate.framework.queue.queued_pod import QueueState, WaitingPod

WINDOW_S: Final = 1.0
"""Expiries are aligned to this window, and QueueSort orders the Pods within a window."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff: 1, 2, 4, 8, 10, 10 s with the defaults."""

    initial_s: float = 1.0
    most_s: float = 10.0

    def duration(self, pod: WaitingPod) -> float:
        """Return the delay, from the errors since the last cycle without an error, or else from the rejections."""
        times = pod.errors or pod.rejections
        if not times:
            return 0.0
        return min(self.initial_s * 2.0 ** min(times - 1, 60), self.most_s)

    def window_of_expiry(self, pod: WaitingPod) -> float:
        """Return the start of the window in which the backoff ends, counted from `queued_at`; 0 without backoff."""
        if pod.backoff_until is None:
            duration = self.duration(pod)
            pod.backoff_until = window_start(pod.queued_at + duration) if duration else 0.0
        return pod.backoff_until

    def is_waiting(self, pod: WaitingPod, now: float) -> bool:
        """Return whether the window in which the backoff ends is not over yet."""
        until = self.window_of_expiry(pod)
        return until > 0 and until >= window_start(now)


def window_start(when: float) -> float:
    return floor(when / WINDOW_S) * WINDOW_S


class BackoffQueue:
    """Pods in backoff, as two heaps: rejected Pods, and Pods whose cycle ended with an error."""

    def __init__(self, backoff: Backoff) -> None:
        self.backoff = backoff
        self._rejected: list[tuple[float, Any, int, WaitingPod]] = []
        self._errored: list[tuple[float, Any, int, WaitingPod]] = []
        self._arrivals = count()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def push(self, pod: WaitingPod) -> None:
        heap = self._errored if pod.failed_by_error else self._rejected
        heapq.heappush(heap, (self.backoff.window_of_expiry(pod), pod.key, next(self._arrivals), pod))
        pod.place = QueueState.BACKOFF
        self._size += 1

    def remove(self, pod: WaitingPod) -> None:
        if pod.place is QueueState.BACKOFF:
            pod.place = QueueState.GONE
            self._size -= 1

    def pop_expired(self, now: float) -> list[WaitingPod]:
        """Remove and return the Pods whose backoff is over, the earliest first."""
        done: list[WaitingPod] = []
        for heap in (self._rejected, self._errored):
            while (head := self._head(heap)) is not None and not self.backoff.is_waiting(head, now):
                heapq.heappop(heap)
                self.remove(head)
                done.append(head)
        return done

    def pop_early(self) -> WaitingPod | None:
        """Remove and return the next rejected Pod before its backoff ends, for an idle scheduler (KEP-5142)."""
        head = self._head(self._rejected)
        if head is not None:
            heapq.heappop(self._rejected)
            self.remove(head)
        return head

    def next_expiry(self) -> float | None:
        """Return the time at which the next backoff ends."""
        heads = [head for heap in (self._rejected, self._errored) if (head := self._head(heap)) is not None]
        return min((self.backoff.window_of_expiry(head) + WINDOW_S for head in heads), default=None)

    def _head(self, heap: list[tuple[float, Any, int, WaitingPod]]) -> WaitingPod | None:
        while heap and (
            heap[0][3].place is not QueueState.BACKOFF or self.backoff.window_of_expiry(heap[0][3]) != heap[0][0]
        ):
            heapq.heappop(heap)
        return heap[0][3] if heap else None
