"""Runs the services of one process: start in order, fail together, stop in the opposite order within a bound.

A service is anything with `name` and `run`; `stop`, where it has one, asks it to finish what is in flight. Which
services there are is decided where the process is composed. Cancelling `Manager.run` stops in order as well, so a
leader's work can be a manager of its own inside the election.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

RESERVE: float = 0.25
"""Share of the time for stopping that services stopped later are left with: a lease must still be released."""


class Service(Protocol):
    """Something that runs as long as the process does."""

    @property
    def name(self) -> str: ...

    async def run(self) -> None:
        """Returns only after `stop` was called, if there is one; raises when it cannot go on."""
        ...


class Stoppable(Service, Protocol):
    """A service that ends by itself once it is asked to."""

    def stop(self) -> None: ...


class ServiceFailed(Exception):
    """A service ended although nobody asked it to; `str()` is the sentence with which the process ends."""

    def __init__(self, name: str, cause: BaseException | None) -> None:
        cause = _innermost(cause)
        said = f"{type(cause).__name__}: {cause}" if cause is not None else "it returned"
        super().__init__(f"{name} has failed, so the process stops: {said}")
        self.name = name


def _innermost(cause: BaseException | None) -> BaseException | None:
    """What went wrong in a group of tasks, when only one did."""
    while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:
        cause = cause.exceptions[0]
    return cause


@dataclass(slots=True)
class _Running:
    service: Service
    task: asyncio.Task[None]


class Manager:
    """Everything that one process runs."""

    def __init__(self, *, shutdown_timeout_s: float = 25.0) -> None:
        """`shutdown_timeout_s` bounds the time from being asked to stop until `run` returns."""
        self._shutdown_timeout_s = shutdown_timeout_s
        self._planned: list[tuple[Service, Callable[[], Awaitable[None]] | None]] = []
        self._running: list[_Running] = []
        self._stopping = asyncio.Event()
        self._log = structlog.get_logger()

    def add(self, service: Service, *, ready: Callable[[], Awaitable[None]] | None = None) -> None:
        """Plans a service. The next one starts when `ready` returns: `store.wait_synced` for a reflector."""
        self._planned.append((service, ready))

    def request_stop(self, reason: str) -> None:
        """Begins the orderly end; harmless when it has begun."""
        if not self._stopping.is_set():
            self._log.info("stopping", reason=reason)
            self._stopping.set()

    @property
    def stopping(self) -> bool:
        """For readiness: a process that stops takes no new work."""
        return self._stopping.is_set()

    async def run(self) -> None:
        """Until `request_stop`, then until everything has ended. Raises `ServiceFailed` for the first failure."""
        failure: ServiceFailed | None = None
        try:
            for service, ready in self._planned:
                self._start(service)
                failure = await self._until_ready(service, ready)
                if failure is not None or self.stopping:
                    break
            if failure is None and not self.stopping:
                self._log.info("started", services=[each.name for each, _ in self._planned])
                failure = await self._until_stopped()
        finally:
            late = await self._stop_all()
        if failure is None:
            failure = late
        if failure is not None:
            raise failure

    def _start(self, service: Service) -> None:
        self._running.append(_Running(service, asyncio.create_task(service.run(), name=service.name)))

    async def _until_ready(self, service: Service, ready: Callable[[], Awaitable[None]] | None) -> ServiceFailed | None:
        if ready is None:
            return None
        waiting = asyncio.ensure_future(ready())
        try:
            failure = await self._until_stopped(waiting)
            if waiting.done() and failure is None and not self.stopping:
                waiting.result()
        finally:
            waiting.cancel()
        if failure is None and not self.stopping:
            self._log.info("service is ready", service=service.name)
        return failure

    async def _until_stopped(self, also: asyncio.Future[None] | None = None) -> ServiceFailed | None:
        """Waits for the request to stop, the first service to end, or something else; the failure if it was that."""
        stop = asyncio.create_task(self._stopping.wait())
        awaited: list[asyncio.Future[Any]] = [stop, *(each.task for each in self._running)]
        if also is not None:
            awaited.append(also)
        try:
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
        if self.stopping:
            return None
        return next((_failure(each) for each in self._running if each.task.done()), None)

    async def _stop_all(self) -> ServiceFailed | None:
        """In the opposite order; one that does not end in its time is cancelled. The first failure met on the way."""
        self._stopping.set()
        loop = asyncio.get_running_loop()
        end = loop.time() + self._shutdown_timeout_s
        failure: ServiceFailed | None = None
        for each in reversed(self._running):
            left_s = max(0.0, end - loop.time())
            was_done = each.task.done()
            await self._stop_one(each, left_s * (1 - RESERVE))
            ended_badly = each.task.done() and not each.task.cancelled() and each.task.exception() is not None
            if ended_badly and not was_done:
                failure = failure or _failure(each)
        return failure

    async def _stop_one(self, running: _Running, within_s: float) -> None:
        stop = getattr(running.service, "stop", None)
        if stop is not None and not running.task.done():
            stop()
            await asyncio.wait([running.task], timeout=within_s)
            if not running.task.done():
                self._log.warning("service did not end in time", service=running.service.name, seconds=within_s)
        running.task.cancel()
        # A cancelled service may still release what it holds, but not for ever.
        await asyncio.wait([running.task], timeout=max(1.0, within_s * RESERVE))
        if not running.task.done():
            self._log.error("service ignores its cancellation", service=running.service.name)


def _failure(running: _Running) -> ServiceFailed:
    cause = None if running.task.cancelled() else running.task.exception()
    failure = ServiceFailed(running.service.name, cause)
    failure.__cause__ = cause
    return failure


def stop_on_signals(manager: Manager, signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> None:
    """SIGTERM and Ctrl-C begin the orderly end; a second one ends the process as if there were no handler."""
    loop = asyncio.get_running_loop()

    def received(which: signal.Signals) -> None:
        for each in signals:
            loop.remove_signal_handler(each)
        manager.request_stop(which.name)

    for which in signals:
        loop.add_signal_handler(which, received, which)
