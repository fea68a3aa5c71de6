"""Performs the leader's writes: none starts unless this process leads, and a term ends only after the answers.

Cancelling a task that waits for an answer does not recall the request, which may be on its way. An orderly end
therefore waits for the answers before the Lease is released. No write arrives after another leader has begun. The
product defines the writes; each must be safe to repeat, because its answer may be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from situate.runtime.reconcile.outcomes import Retriable

T = TypeVar("T")

ANSWER_S: Final = 5.0
"""How long the end of a term waits for answers. Later ones are lost; the Lease's margin is as long."""


class Actuator:
    """The writes of one leader."""

    def __init__(self, may_write: Callable[[], None]) -> None:
        """`may_write` raises a `Retriable` if this process does not lead at the moment of the call."""
        self._may_write = may_write
        self._pending: set[asyncio.Task[Any]] = set()

    async def write(self, request: Coroutine[Any, Any, T]) -> T:
        """Send one request and wait for its answer. Raises the errors of `may_write` and of the client."""
        try:
            self._may_write()
        except BaseException:
            request.close()
            raise
        task = asyncio.ensure_future(request)
        self._pending.add(task)
        task.add_done_callback(self._finish_task)
        return await asyncio.shield(task)

    def may_write(self) -> bool:
        """Whether a write may start at this moment."""
        try:
            self.check()
        except Retriable:
            return False
        return True

    def check(self) -> None:
        """Raise the `Retriable` of `may_write` if no write may start."""
        self._may_write()

    async def wait_answers(self) -> None:
        """Wait for the outstanding answers."""
        if self._pending:
            await asyncio.wait(self._pending, timeout=ANSWER_S)

    def _finish_task(self, task: asyncio.Task[Any]) -> None:
        self._pending.discard(task)
        if not task.cancelled():
            task.exception()  # the caller of `write` received it; without a waiting caller it is dropped
