"""One call of a handler, from its start until nothing of it runs any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from situate.sharding.executor.controller.work import NotOwner, Work
from situate.sharding.executor.next_step import Outcome, StopReason
from situate.sharding.model.field_paths import Content

Handler: TypeAlias = Callable[[Content, Work], Awaitable[Outcome | None]]
"""Called with the object as the server has just confirmed it."""


class Run:
    """A handler at work on one object, in a task of its own."""

    def __init__(self, handler: Handler, content: Content, work: Work, generation: int, name: str) -> None:
        self.work = work
        self.generation = generation
        """Of the object that the handler was called with."""
        self.stopped_for: StopReason | None = None
        """Why it was cancelled; None: it was not."""
        self.must_end_by: float | None = None
        """When the process ends if the handler has not; None: the handler may take its time."""
        self._handler = handler
        self._content = content
        self.task = asyncio.create_task(self._body(), name=name)

    async def _body(self) -> Outcome | None:
        try:
            return await self._handler(self._content, self.work)
        finally:
            await self.work.held()  # threads go on when what waits for them is cancelled

    def stop(self, reason: StopReason) -> None:
        """Cancels the handler; once is enough, and a later reason takes the place of an earlier one."""
        first = self.stopped_for is None
        self.stopped_for = reason
        self.work.stopping.set()
        if first:
            self.task.cancel()

    def result(self) -> Outcome | Exception | None:
        """What it came to, once it has ended: an outcome, or the exception with which it failed.

        None where nothing follows from it: it has settled the object, was stopped, or was no longer the holder.
        """
        if self.task.cancelled():
            return None if self.stopped_for is not None else RuntimeError("the handler has cancelled itself")
        failure = self.task.exception()
        if isinstance(failure, NotOwner):
            return None
        if failure is None:
            returned: object = self.task.result()
            if returned is None or isinstance(returned, Outcome):
                return returned
            return TypeError(f"the handler has returned {returned!r:.80}, allowed: an Outcome, or None")
        return failure if isinstance(failure, Exception) else RuntimeError(f"{type(failure).__name__}: {failure}")
