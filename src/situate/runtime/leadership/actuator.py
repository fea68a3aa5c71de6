"""Carries out what a leader has decided: no write begins unless we lead, and a term does not end before the answers.

Cancelling what waits for an answer does not call the request back: it may be on its way. So an orderly end waits for
the answers before the Lease is released, and no write arrives after another leader has begun. What the writes are is
the product's; each must be safe to repeat, for its answer may be lost.
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
        """`may_write` raises a `Retriable` when this process does not lead at this very moment."""
        self._may_write = may_write
        self._under_way: set[asyncio.Task[Any]] = set()

    async def write(self, request: Coroutine[Any, Any, T]) -> T:
        """Sends one request and waits for its answer. Raises what `may_write` and the client raise."""
        try:
            self._may_write()
        except BaseException:
            request.close()
            raise
        task = asyncio.ensure_future(request)
        self._under_way.add(task)
        task.add_done_callback(self._answered)
        return await asyncio.shield(task)

    def allowed(self) -> bool:
        """Whether a write may begin at this moment."""
        try:
            self.check()
        except Retriable:
            return False
        return True

    def check(self) -> None:
        """Raises what `may_write` raises."""
        self._may_write()

    async def finish(self) -> None:
        """Waits for the answers that are still due."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=ANSWER_S)

    def _answered(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited has been told; if nobody waits any more, nobody needs to know
