"""Sends calls outside the scheduling cycles: many at a time, never two about one object.

Upstream: pkg/scheduler/backend/api_dispatcher. At most one call waits for each object. A less relevant new call is
dropped, a more relevant one replaces the waiting call, and equal ones merge. Each call defines its own request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Any, Protocol

from situate.runtime.reconcile.outcomes import Retriable


class Relevance(IntEnum):
    """Decides which of two calls about one object is dropped."""

    STATUS = 1
    """Less than a binding, which also clears the nomination and sets the condition."""
    BINDING = 2
    EVICTION = 3
    """More than a binding: a pod about to be evicted is not bound."""


class Call(Protocol):
    """A request to the API server about one object."""

    @property
    def uid(self) -> str:
        """Uid of the object."""
        ...

    @property
    def relevance(self) -> Relevance: ...

    async def send(self) -> None:
        """Send the request and report its outcome. Raises the errors of the actuator."""
        ...

    def report_drop(self) -> None:
        """Report that the call will never be sent."""
        ...

    def merge_with(self, earlier: Any) -> Call:
        """Return one call for both; `earlier` has the same relevance and has not been sent."""
        ...


class Dispatcher:
    """The dispatcher of one term. `submit` from anywhere on the loop; `run` sends until cancelled."""

    def __init__(self, in_flight: int, sent: Callable[[], None] = lambda: None) -> None:
        """`in_flight` bounds the calls sent at a time; `sent` is called after each."""
        self._workers = in_flight
        self._on_sent = sent
        self._waiting: dict[str, Call] = {}
        self._urgent: deque[str] = deque()
        """Bindings and evictions come before statuses, of which there may be many."""
        self._others: deque[str] = deque()
        self._under_way: set[str] = set()
        self._idle: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """Return the number of calls that wait or are being sent."""
        return len(self._waiting) + len(self._under_way)

    def submit(self, call: Call) -> None:
        """Queue a call, without waiting."""
        uid = call.uid
        waiting = self._waiting.get(uid)
        if waiting is None:
            self._waiting[uid] = call
            self._enqueue(uid)
        elif call.relevance < waiting.relevance:
            call.report_drop()
        elif call.relevance > waiting.relevance:
            self._waiting[uid] = call
            waiting.report_drop()
            self._enqueue(uid)
        else:
            self._waiting[uid] = call.merge_with(waiting)

    def is_waiting(self, uid: str) -> bool:
        """Whether a call about the object has not started."""
        return uid in self._waiting

    async def run(self) -> None:
        """Send calls until cancelled, also when this process no longer leads."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    def _enqueue(self, uid: str) -> None:
        urgent = self._waiting[uid].relevance > Relevance.STATUS
        (self._urgent if urgent else self._others).append(uid)
        self._wake_one()

    def _next_call(self) -> Call | None:
        """Return the next call to send.

        Skips an entry whose call was sent from the other queue. Skips an object with a call under way, too: it gets a
        new entry when that call ends.
        """
        for line in (self._urgent, self._others):
            while line:
                uid = line.popleft()
                if uid in self._waiting and uid not in self._under_way:
                    return self._waiting.pop(uid)
        return None

    def _wake_one(self) -> None:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return

    async def _work(self) -> None:
        while True:
            while (call := self._next_call()) is None:
                idle = asyncio.get_running_loop().create_future()
                self._idle.append(idle)
                await idle
            uid = call.uid
            self._under_way.add(uid)
            try:
                await run_within_term(call.send())
            finally:
                self._under_way.discard(uid)
                if uid in self._waiting:
                    self._enqueue(uid)
            self._on_sent()


async def run_within_term(work: Awaitable[None]) -> None:
    """Await the work; if this process no longer leads, wait for the cancellation that ends the term.

    An exception would end the term as well, but a task group that ends by one forgets that it is being cancelled.
    """
    try:
        await work
    except Retriable:
        await asyncio.get_running_loop().create_future()
