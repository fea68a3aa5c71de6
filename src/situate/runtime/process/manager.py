"""Runs the services of one process: start in order, fail together, stop in the opposite order within a bound.

A service is any object with `name` and `run`; an optional `stop` makes it finish work in flight. The code that composes
the process adds the services. Cancelling `Manager.run` stops in order as well, so a leader's work can be a manager
inside the election.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

RESERVE: float = 0.25
"""Share of the time for stopping that is left to services stopped later: a Lease must still be released."""


class Service(Protocol):
    """A part of the process that runs as long as the process does."""

    @property
    def name(self) -> str: ...

    async def run(self) -> None:
        """Run until `stop` is called, if there is one; raise if the service cannot go on."""
        ...


class Stoppable(Service, Protocol):
    """A service that ends by itself after `stop`."""

    def stop(self) -> None: ...


class ServiceFailed(Exception):
    """A service ended without a request to stop; `str()` is the process's last message."""

    def __init__(self, name: str, cause: BaseException | None) -> None:
        cause = _innermost_exception(cause)
        said = f"{type(cause).__name__}: {cause}" if cause is not None else "the service ended without an error"
        super().__init__(f"{name} has failed, so the process stops: {said}")
        self.name = name


def _innermost_exception(cause: BaseException | None) -> BaseException | None:
    """Return the only exception of a group, also of nested groups."""
    while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:
        cause = cause.exceptions[0]
    return cause


@dataclass(slots=True)
class _RunningService:
    service: Service
    task: asyncio.Task[None]


class Manager:
    """The services of one process."""

    def __init__(self, *, shutdown_timeout_s: float = 25.0) -> None:
        """`shutdown_timeout_s` bounds the time from the request to stop until `run` returns."""
        self._shutdown_timeout_s = shutdown_timeout_s
        self._planned: list[tuple[Service, Callable[[], Awaitable[None]] | None]] = []
        self._running: list[_RunningService] = []
        self._stopping = asyncio.Event()
        self._log = structlog.get_logger()

    def add(self, service: Service, *, ready: Callable[[], Awaitable[None]] | None = None) -> None:
        """Add a service. The next one starts when `ready` returns, for example `store.wait_synced` for a reflector."""
        self._planned.append((service, ready))

    def request_stop(self, reason: str) -> None:
        """Start the orderly stop; no effect if it has started."""
        if not self._stopping.is_set():
            self._log.info("stopping", reason=reason)
            self._stopping.set()

    @property
    def stopping(self) -> bool:
        """Whether the process stops, for readiness: a stopping process takes no new work."""
        return self._stopping.is_set()

    async def run(self) -> None:
        """Run until `request_stop`, then until all services have ended.

        Raises `ServiceFailed` for the first failure.
        """
        failure: ServiceFailed | None = None
        try:
            for service, ready in self._planned:
                self._start(service)
                failure = await self._wait_until_ready(service, ready)
                if failure is not None or self.stopping:
                    break
            if failure is None and not self.stopping:
                self._log.info("started", services=[each.name for each, _ in self._planned])
                failure = await self._wait_until_stopped()
        finally:
            late = await self._stop_all()
        if failure is None:
            failure = late
        if failure is not None:
            raise failure

    def _start(self, service: Service) -> None:
        self._running.append(_RunningService(service, asyncio.create_task(service.run(), name=service.name)))

    async def _wait_until_ready(
        self, service: Service, ready: Callable[[], Awaitable[None]] | None
    ) -> ServiceFailed | None:
        if ready is None:
            return None
        waiting = asyncio.ensure_future(ready())
        try:
            failure = await self._wait_until_stopped(waiting)
            if waiting.done() and failure is None and not self.stopping:
                waiting.result()
        finally:
            waiting.cancel()
        if failure is None and not self.stopping:
            self._log.info("service ready", service=service.name)
        return failure

    async def _wait_until_stopped(self, also: asyncio.Future[None] | None = None) -> ServiceFailed | None:
        """Wait for the request to stop, the end of a service, or `also`; return the failure of an ended service."""
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
        """Stop the services in the opposite order, cancel those that take too long, and return the first failure."""
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

    async def _stop_one(self, running: _RunningService, within_s: float) -> None:
        stop = getattr(running.service, "stop", None)
        if stop is not None and not running.task.done():
            stop()
            await asyncio.wait([running.task], timeout=within_s)
            if not running.task.done():
                self._log.warning("service did not stop in time", service=running.service.name, seconds=within_s)
        running.task.cancel()
        # A cancelled service may still release its resources, but within a bound.
        await asyncio.wait([running.task], timeout=max(1.0, within_s * RESERVE))
        if not running.task.done():
            self._log.error("service ignored its cancellation", service=running.service.name)


def _failure(running: _RunningService) -> ServiceFailed:
    cause = None if running.task.cancelled() else running.task.exception()
    failure = ServiceFailed(running.service.name, cause)
    failure.__cause__ = cause
    return failure


def stop_on_signals(manager: Manager, signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> None:
    """Stop in order on SIGTERM and Ctrl-C; a second signal ends the process as if there were no handler."""
    loop = asyncio.get_running_loop()

    def received(which: signal.Signals) -> None:
        for each in signals:
            loop.remove_signal_handler(each)
        manager.request_stop(which.name)

    for which in signals:
        loop.add_signal_handler(which, received, which)
