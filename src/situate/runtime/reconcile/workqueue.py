"""A queue of keys, each processed by at most one worker at a time.

Follows client-go's rate-limiting queue (`util/workqueue`). A key added while it waits is queued once. A key added while
it is processed is queued again afterwards. Keys are any hashable values; the queue knows nothing of the work. The order
is deterministic: priority, then order of arrival.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from situate.kube.retry.backoff import Backoff

K = TypeVar("K", bound=Hashable)

RETRY = Backoff(initial_s=0.005, cap_s=300.0, jitter=0.25)
"""client-go retries from 5 ms to 1000 s; here at most five minutes pass after the cause of a failure has gone."""


class ShutDown(Exception):
    """The queue returns no more keys."""


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A frozen view for metrics."""

    queued: int
    processing: int
    delayed: int
    failing: int
    """Keys whose last attempt failed."""
    added_total: int
    retries_total: int
    waited_total_s: float
    """Sum over all keys returned by `get`; with `handed_out_total` it gives the mean wait."""
    handed_out_total: int
    oldest_wait_s: float
    """The longest wait of a queued key; 0 if none is queued."""


@dataclass(slots=True)
class _QueuedKey:
    """A queued key."""

    priority: int
    number: int
    """Order of arrival; a heap entry with another number or priority is out of date."""
    since: float


class WorkQueue(Generic[K]):
    """A queue to which any code on the loop adds keys; workers call `get`, work, and call `done`."""

    def __init__(self, *, rng: random.Random, backoff: Backoff = RETRY) -> None:
        self._rng = rng
        self._backoff = backoff
        self._heap: list[tuple[int, int, K]] = []
        self._queued: dict[K, _QueuedKey] = {}
        self._processing: dict[K, int | None] = {}  # priority with which to queue it again, None if not requested
        self._delayed: dict[K, tuple[float, asyncio.Handle]] = {}
        """The due time of a key, and its timer.

        The time is stored because uvloop has no timer below half a millisecond.
        """
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._shut_down = False
        self._arrivals = 0
        self._retries = 0
        self._waited_s = 0.0
        self._handed_out = 0

    def add(self, key: K, *, priority: int = 0) -> None:
        """Queue a key; higher priorities come first. Ignored after `shut_down`.

        A queued key keeps its position, or moves forward if its priority rises.
        """
        if self._shut_down:
            return
        if key in self._processing:
            wanted = self._processing[key]
            self._processing[key] = priority if wanted is None else max(wanted, priority)
            return
        waiting = self._queued.get(key)
        if waiting is not None:
            if priority > waiting.priority:
                waiting.priority = priority
                heapq.heappush(self._heap, (-priority, waiting.number, key))
            return
        self._arrivals += 1
        self._queued[key] = _QueuedKey(priority, self._arrivals, _loop_time())
        heapq.heappush(self._heap, (-priority, self._arrivals, key))
        self._wake_one()

    def add_after(self, key: K, delay_s: float) -> None:
        """Queue a key later. Of two delays the earlier end applies; an `add` in between does not cancel it."""
        if self._shut_down:
            return
        if delay_s <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + delay_s
        planned = self._delayed.get(key)
        if planned is not None:
            due, timer = planned
            if due <= when:
                return
            timer.cancel()
        self._delayed[key] = (when, loop.call_at(when, self._add_due, key))

    def retry(self, key: K) -> float:
        """Queue a key after its own back-off, which grows until `forget`; return the delay in seconds."""
        self._failures[key] = self._failures.get(key, 0) + 1
        self._retries += 1
        delay_s = self._backoff.delay_s(self._failures[key], self._rng)
        self.add_after(key, delay_s)
        return delay_s

    def failures(self, key: K) -> int:
        """Return the number of failed attempts in a row."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """Reset the back-off of a key, because its work succeeded or is not retried."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Wait for the next key and return it. The caller must call `done`. Raises `ShutDown`."""
        while not self._queued or self._shut_down:
            if self._shut_down:
                raise ShutDown
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except BaseException:
                self._remove_getter(getter)
                raise
        return self._take()

    def done(self, key: K) -> None:
        """End the work on a key, successful or not; if the key was added meanwhile, it is queued now."""
        priority = self._processing.pop(key)
        if priority is not None:
            self.add(key, priority=priority)
        self._wake_idle_waiters()

    def shut_down(self) -> None:
        """Return no more keys and drop those that wait: a listing finds them again. May be called twice."""
        self._shut_down = True
        for _, timer in self._delayed.values():
            timer.cancel()
        self._delayed.clear()
        self._queued.clear()
        self._heap.clear()
        while self._getters:
            self._wake_one()
        self._wake_idle_waiters()

    async def wait_idle(self) -> None:
        """Wait until no key is queued and no key is being processed; delayed keys do not count."""
        while self._queued or self._processing:
            resting = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(resting)
            await resting

    def statistics(self) -> QueueStatistics:
        """Count the keys in each state."""
        oldest = min((each.since for each in self._queued.values()), default=None)
        return QueueStatistics(
            queued=len(self._queued),
            processing=len(self._processing),
            delayed=len(self._delayed),
            failing=len(self._failures),
            added_total=self._arrivals,
            retries_total=self._retries,
            waited_total_s=self._waited_s,
            handed_out_total=self._handed_out,
            oldest_wait_s=0.0 if oldest is None else max(0.0, _loop_time() - oldest),
        )

    def _take(self) -> K:
        while True:
            negative, number, key = heapq.heappop(self._heap)
            waiting = self._queued.get(key)
            if waiting is not None and waiting.number == number and waiting.priority == -negative:
                break
        del self._queued[key]
        self._processing[key] = None
        self._waited_s += _loop_time() - waiting.since
        self._handed_out += 1
        return key

    def _add_due(self, key: K) -> None:
        del self._delayed[key]
        self.add(key)

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _remove_getter(self, getter: asyncio.Future[None]) -> None:
        """Remove a cancelled worker; if it was already woken, wake another in its place."""
        if getter.done() and not getter.cancelled():
            if self._queued:
                self._wake_one()
        elif getter in self._getters:
            self._getters.remove(getter)

    def _wake_idle_waiters(self) -> None:
        if not self._queued and not self._processing:
            for resting in self._idle_waiters:
                if not resting.done():
                    resting.set_result(None)
            self._idle_waiters.clear()


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
