"""Workers that take keys from a work queue and reconcile each; the only place that handles failures of that work.

Reconciliation is level-based: the function gets a key, reads the current state, and may be called any number of times.
A key whose work fails is delayed alone; other keys go on. The function contains all decisions and actions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from enum import Enum
from typing import Generic, TypeVar

import msgspec
import structlog

from situate.kube.errors import KubeError
from situate.runtime.reconcile.outcomes import BrokenInvariant, Result, Retriable, Terminal
from situate.runtime.reconcile.workqueue import ShutDown, WorkQueue

K = TypeVar("K", bound=Hashable)

Reconcile = Callable[[K], Awaitable[Result]]


class Verdict(Enum):
    """How one attempt ended; a label of the metrics."""

    SUCCESS = "success"
    REQUEUED = "requeued"
    RETRIABLE = "retriable"
    TERMINAL = "terminal"
    UNEXPECTED = "unexpected"


class Attempt(msgspec.Struct, Generic[K], frozen=True):
    """One call of the function, for observers."""

    key: K
    verdict: Verdict
    seconds: float
    retry_after_s: float | None
    """Delay until the key is retried by itself; None if it is not."""
    error: BaseException | None


def ignore_attempt(_: object) -> None:
    """Do nothing: the default observer."""


class Reconciler(Generic[K]):
    """A service whose `run` ends after `stop`, when the work in flight is done."""

    def __init__(
        self,
        name: str,
        queue: WorkQueue[K],
        reconcile: Reconcile[K],
        *,
        workers: int = 1,
        observe: Callable[[Attempt[K]], None] = ignore_attempt,
    ) -> None:
        """`observe` is called for every attempt and must not block."""
        self.name = name
        self.queue = queue
        self._reconcile = reconcile
        self._workers = workers
        self._observe = observe
        self._log = structlog.get_logger().bind(controller=name)

    async def run(self) -> None:
        """Work until `stop`. Raises only `BrokenInvariant`, after cancelling the other workers."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self.name}-{number}")
        except BaseExceptionGroup as ended:
            # Not `except*`: Python before 3.11.4 wraps exceptions raised there again.
            broken, others = ended.split(BrokenInvariant)
            if broken is None or others is not None:
                raise
            raise broken.exceptions[0] from None

    def stop(self) -> None:
        """Take no further key; `run` finishes the work in flight."""
        self.queue.shut_down()

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except ShutDown:
                return
            try:
                await self._attempt(key)
            finally:
                self.queue.done(key)

    async def _attempt(self, key: K) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        error: Exception | None = None
        result = Result()
        try:
            result = await self._reconcile(key)
        except BrokenInvariant:
            raise
        except Exception as problem:
            error = problem
        verdict = _verdict(result, error)
        retry_after_s = self._requeue(key, result, error, verdict)
        if error is not None:
            self._log_failure(key, error, verdict, retry_after_s)
        self._observe(Attempt(key, verdict, loop.time() - start, retry_after_s, error))

    def _requeue(self, key: K, result: Result, error: Exception | None, verdict: Verdict) -> float | None:
        match verdict:
            case Verdict.SUCCESS | Verdict.TERMINAL:
                self.queue.forget(key)
                return None
            case Verdict.REQUEUED:
                self.queue.forget(key)
                after_s = result.requeue_after
            case Verdict.RETRIABLE:
                after_s = getattr(error, "after_s", None)
            case Verdict.UNEXPECTED:
                after_s = None
        if after_s is None:
            return self.queue.retry(key)
        self.queue.add_after(key, after_s)
        return after_s

    def _log_failure(self, key: K, error: Exception, verdict: Verdict, retry_after_s: float | None) -> None:
        facts = {"key": str(key), "error": str(error) or type(error).__name__, "retry_after_s": retry_after_s}
        if verdict is Verdict.UNEXPECTED:
            self._log.error("reconciliation failed unexpectedly", exc_info=error, **facts)
        elif verdict is Verdict.TERMINAL:
            self._log.error("reconciliation failed, no retry before a change", **facts)
        else:
            self._log.warning("reconciliation failed, retrying", failures=self.queue.failures(key), **facts)


def _verdict(result: Result, error: Exception | None) -> Verdict:
    match error:
        case None:
            return Verdict.SUCCESS if result.requeue_after is None else Verdict.REQUEUED
        case Retriable():
            return Verdict.RETRIABLE
        case Terminal():
            return Verdict.TERMINAL
        case KubeError():
            # a conflict or a missing object is no defect: the next attempt decides on the state then
            return Verdict.RETRIABLE
        case _:
            return Verdict.UNEXPECTED
