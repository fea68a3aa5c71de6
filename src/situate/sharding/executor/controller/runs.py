"""One call of a handler, from its start until no part of it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from situate.sharding.executor.controller.work import NotOwner, Work
from situate.sharding.executor.next_step import Outcome, StopReason
from situate.sharding.model.field_paths import Content

Handler: TypeAlias = Callable[[Content, Work], Awaitable[Outcome | None]]
"""Called with the object that the server has just confirmed."""


class HandlerRun:
    """A handler that runs on one object, in a task of its own."""

    def __init__(self, handler: Handler, content: Content, work: Work, generation: int, name: str) -> None:
        self.work = work
        self.generation = generation
        """Generation of the object with which the handler was called."""
        self.stopped_for: StopReason | None = None
        """Why the handler was cancelled; None: it was not."""
        self.must_end_by: float | None = None
        """When the process ends unless the handler has ended; None: no deadline."""
        self._handler = handler
        self._content = content
        self.task = asyncio.create_task(self._call_handler(), name=name)

    async def _call_handler(self) -> Outcome | None:
        try:
            return await self._handler(self._content, self.work)
        finally:
            await self.work.wait_held()  # threads continue when the task that awaits them is cancelled

    def stop(self, reason: StopReason) -> None:
        """Cancel the handler, once. A later reason replaces an earlier one."""
        first = self.stopped_for is None
        self.stopped_for = reason
        self.work.stopping.set()
        if first:
            self.task.cancel()

    def result(self) -> Outcome | Exception | None:
        """Return the result of an ended handler: its outcome, or the exception with which it failed.

        None if it needs no further step: the handler settled the object, was stopped, or was no longer the holder.
        """
        if self.task.cancelled():
            return None if self.stopped_for is not None else RuntimeError("the handler cancelled itself")
        failure = self.task.exception()
        if isinstance(failure, NotOwner):
            return None
        if failure is None:
            returned: object = self.task.result()
            if returned is None or isinstance(returned, Outcome):
                return returned
            return TypeError(f"the handler returned {returned!r:.80}, allowed: an Outcome, or None")
        return failure if isinstance(failure, Exception) else RuntimeError(f"{type(failure).__name__}: {failure}")
