"""The in-memory endpoint for reviews, in place of the HTTPS server `situate.runtime.serving.webhook_server`.

It lives in its process. It answers nothing while the process is stopped, and breaks open calls off when it dies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from situate.cluster.storage.effects import WebhookReply
from situate.runtime.serving.certificates.renewal_schedule import Generation
from situate.runtime.serving.webhook_server import AnswerReview, Reply
from situate.testing.virtual_time.processes import Process, ProcessState

AnswerCallback = Callable[[WebhookReply], None]
_FLUSH_S = 0.1
_CONNECTION_CUT = WebhookReply(error="EOF")


class MemoryEndpoint:
    """A `WebhookEndpoint`. Any code may call `ask`. The controller calls the rest."""

    def __init__(self, process: Process, answer: AnswerReview, answered: Callable[[Reply], None]) -> None:
        """`answered` is called with every answer at the moment when it is given."""
        self.process = process
        self.generation: Generation | None = None
        """The certificates in use."""
        self.draining = False
        """Whether connections end with their next answer."""
        self._answer = answer
        self._answered = answered
        self._certified = asyncio.Event()
        self._open = asyncio.Event()
        self._open_reviews: dict[asyncio.Task[None], AnswerCallback] = {}

    @property
    def listening(self) -> bool:
        return self._open.is_set()

    @property
    def reachable(self) -> bool:
        """Return whether a connection is accepted. A stopped process accepts connections but does not answer."""
        return self.listening and self.process.is_alive

    def serve_with(self, generation: Generation) -> None:
        self.generation = generation
        self._certified.set()

    async def run(self) -> None:
        await self._certified.wait()
        self._open.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._open.clear()
            self._certified.clear()
            self.draining = False
            self.disconnect_all()

    async def wait_listening(self) -> None:
        await self._open.wait()

    async def drain(self, within_s: float) -> None:
        self.draining = True
        if self._open_reviews:
            await asyncio.wait(tuple(self._open_reviews), timeout=within_s)
        await asyncio.sleep(_FLUSH_S)

    def ask(self, body: bytes, told: AnswerCallback) -> None:
        """Ask for one review. `told` gets the answer or the end of the connection, or is never called."""
        self.process.loop.call_soon(self._begin_review, body, told)

    def disconnect_all(self) -> None:
        """End every connection."""
        asked, self._open_reviews = self._open_reviews, {}
        for task, told in asked.items():
            if self.process.state is not ProcessState.KILLED:
                task.cancel()
            told(_CONNECTION_CUT)

    def _begin_review(self, body: bytes, told: AnswerCallback) -> None:
        if not self.listening:
            told(_CONNECTION_CUT)
            return
        task = self.process.loop.create_task(self._answer_review(body, told), name="a review")
        self._open_reviews[task] = told

    async def _answer_review(self, body: bytes, told: AnswerCallback) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            reply = await self._answer(body)
        finally:
            known = self._open_reviews.pop(task, None)
        if known is not None:
            self._answered(reply)
            told(WebhookReply(reply.status, reply.body))
