"""Sends calls beside the scheduling cycles: many at a time, never two about one object.

Upstream: pkg/scheduler/backend/api_dispatcher. At most one call waits for each object: a less relevant one is dropped,
a more relevant one takes the place of what waits, and equals merge. What a call does is its own affair.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Any, Protocol

from situate.runtime.reconcile.outcomes import Retriable


class Relevance(IntEnum):
    """Which of two calls about one object is left out."""

    STATUS = 1
    """What a binding says better: it clears the nomination and sets the condition."""
    BINDING = 2
    EVICTION = 3
    """Nobody binds a pod that is to end."""


class Call(Protocol):
    """Something that is to be said to the API server about one object."""

    @property
    def uid(self) -> str:
        """Of the object."""
        ...

    @property
    def relevance(self) -> Relevance: ...

    async def send(self) -> None:
        """Does it, and tells whoever has to know how it went. Raises what the actuator raises."""
        ...

    def dropped(self) -> None:
        """It will never be sent."""
        ...

    def merged(self, earlier: Any) -> Call:
        """Both in one; the earlier one is of the same relevance and has not been sent."""
        ...


class Dispatcher:
    """Mutable, of one term. `submit` from anywhere on the loop; `run` sends until cancelled."""

    def __init__(self, in_flight: int, sent: Callable[[], None] = lambda: None) -> None:
        """`in_flight`: so many calls at a time; `sent` is told after each."""
        self._workers = in_flight
        self._sent = sent
        self._waiting: dict[str, Call] = {}
        self._urgent: deque[str] = deque()
        """Bindings and evictions go before statuses, of which there may be very many."""
        self._others: deque[str] = deque()
        self._under_way: set[str] = set()
        self._idle: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """Calls that wait or are under way."""
        return len(self._waiting) + len(self._under_way)

    def submit(self, call: Call) -> None:
        """Never waits."""
        uid = call.uid
        waiting = self._waiting.get(uid)
        if waiting is None:
            self._waiting[uid] = call
            self._take_turn(uid)
        elif call.relevance < waiting.relevance:
            call.dropped()
        elif call.relevance > waiting.relevance:
            self._waiting[uid] = call
            waiting.dropped()
            self._take_turn(uid)
        else:
            self._waiting[uid] = call.merged(waiting)

    def waits(self, uid: str) -> bool:
        """Whether a call about the object has not begun."""
        return uid in self._waiting

    async def run(self) -> None:
        """Until cancelled, also when nothing can be sent any more."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._work())

    def _take_turn(self, uid: str) -> None:
        urgent = self._waiting[uid].relevance > Relevance.STATUS
        (self._urgent if urgent else self._others).append(uid)
        self._wake_one()

    def _next(self) -> Call | None:
        """Whose turn it is. A turn is void of something that has gone before in the other line, or while a call about
        the same object is under way: it has another one when that is through.
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
            while (call := self._next()) is None:
                idle = asyncio.get_running_loop().create_future()
                self._idle.append(idle)
                await idle
            uid = call.uid
            self._under_way.add(uid)
            try:
                await until_the_term_ends(call.send())
            finally:
                self._under_way.discard(uid)
                if uid in self._waiting:
                    self._take_turn(uid)
            self._sent()


async def until_the_term_ends(work: Awaitable[None]) -> None:
    """Does the work, unless this process leads no longer: then waits for the end of the term, which is about to come.

    An exception would end it as well; but a task group that ends by one forgets that it is being cancelled.
    """
    try:
        await work
    except Retriable:
        await asyncio.get_running_loop().create_future()
