"""Start, stop, retry, complete and release the objects of one executor, as `next_step` decides.

The watch reports changes, and the lease reports its loss. Other modules maintain the lease and the watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import structlog

from situate.kube.errors import KubeError
from situate.objects.kinds.unstructured import Unstructured
from situate.runtime.reconcile.outcomes import DONE, Result, Retriable
from situate.runtime.reconcile.workqueue import WorkQueue
from situate.sharding.executor.config import ExecutorConfig
from situate.sharding.executor.controller.environment import RuntimeEnvironment
from situate.sharding.executor.controller.lease import EXIT_CODE
from situate.sharding.executor.controller.runs import Handler, HandlerRun
from situate.sharding.executor.controller.work import FencedWriter, NotOwner, Work
from situate.sharding.executor.next_step import (
    ExecutorState,
    Fail,
    Forget,
    ForgoneEpochs,
    Incarnation,
    LocalState,
    Outcome,
    Release,
    Start,
    Step,
    Stop,
    StopReason,
    Wait,
    next_step,
    owns,
)
from situate.sharding.leases.tenure import Tenure
from situate.sharding.model.field_paths import Content
from situate.sharding.model.object_view import ObjectView, view_of

HANDLER_FAILED: Final = "HandlerFailed"
"""`status.reason` of an object whose handler has failed too often."""
_JITTER: Final = 0.5


class Request(NamedTuple):
    """Namespace and name of an object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(slots=True)
class _Record:
    """State of one object under one epoch."""

    uid: str
    epoch: int
    run: HandlerRun | None = None
    outcome: Outcome | None = None
    """Outcome that must be written; None: no outcome."""
    failures: int = 0
    resume_at: float | None = None
    settled: int | None = None


class AssignedObjects:
    """The known objects of one executor, and the handlers that run on them."""

    def __init__(
        self,
        name: str,
        me: Incarnation,
        handler: Handler,
        config: ExecutorConfig,
        tenure: Tenure,
        around: RuntimeEnvironment,
    ) -> None:
        self.queue: WorkQueue[Request] = WorkQueue(rng=around.rng)
        """Queue of `reconcile`."""
        self.writer: FencedWriter | None = None
        """None until there is a connection."""
        self.draining = False
        """All handlers must stop, and all objects must be released."""
        self._name = name
        self._incarnation = me
        self._handler = handler
        self._config = config
        self._tenure = tenure
        self._environment = around
        self._views: dict[Request, ObjectView] = {}
        self._records: dict[Request, _Record] = {}
        self._runs: dict[Request, HandlerRun] = {}
        self._starting = 0
        self._waiting: dict[Request, None] = {}
        self._forgone_epochs = ForgoneEpochs()
        self._log = structlog.get_logger(controller=name)

    def is_busy(self) -> bool:
        """Return whether a handler runs, cancelled or not. Callable from any thread."""
        return bool(self._runs)

    def is_idle(self) -> bool:
        """Return whether no handler runs or is about to start."""
        return not self._runs and not self._starting

    def count_owned(self) -> int:
        """Return the number of owned objects."""
        return sum(owns(view, self._incarnation) for view in self._views.values())

    def may_work_on(self, obj: Content) -> bool:
        """Return whether this process may work on the object now."""
        view = view_of(obj, self._config.adapter)
        return (
            self._has_lease
            and not self.draining
            and owns(view, self._incarnation)
            and view.epoch > self._forgone_epochs.epoch_of(view.uid)
        )

    def enqueue_all(self) -> None:
        """Queue every object, except objects whose last attempt failed. Each of those returns after its back-off."""
        for request in [*self._views, *self._runs]:
            if not self.queue.failures(request):
                self.queue.add(request)

    def forgo_owned(self) -> int:
        """Mark all owned objects for release, because their lease is lost. Returns their number."""
        self._forgone_epochs = ForgoneEpochs().with_owned(
            {view.uid: view for view in self._views.values()}, self._incarnation
        )
        return len(self._forgone_epochs.epochs)

    def cancel_handlers(self) -> None:
        """Cancel every handler."""
        for request in self._runs:
            self._stop(request, self._records[request], StopReason.LEASE_LOST)

    def check_handlers(self) -> None:
        """End the process if a handler does not stop, and stop handlers that make no progress."""
        now = self._environment.now()
        limit_s = self._config.progress_timeout
        for request, run in [*self._runs.items()]:
            if run.must_end_by is not None and now >= run.must_end_by:
                self._log.error("handler did not stop in time, process ends", key=str(request))
                self._environment.end_process(EXIT_CODE)
            elif limit_s is not None and run.stopped_for is None and now - run.work.beat_at > limit_s:
                self._stop(request, self._records[request], StopReason.NO_PROGRESS)

    async def end_handlers(self) -> None:
        """Cancel all handlers at once. If a handler does not stop within `cancel_grace_s`, end the process."""
        for run in self._runs.values():
            run.stop(StopReason.LEASE_LOST)
        if tasks := [run.task for run in self._runs.values()]:
            await asyncio.wait(tasks, timeout=self._config.times.cancel_grace_s)
        await asyncio.sleep(0)  # let the ended tasks run their callbacks
        if self._runs:
            self._log.error("handlers did not stop in time, process ends", keys=[*map(str, self._runs)])
            self._environment.end_process(EXIT_CODE)

    async def reconcile(self, request: Request) -> Result:
        """Examine one object and take its next step."""
        view, record = self._views.get(request), self._record_for(request)
        if record is None:
            return DONE
        if record.outcome is not None and record.run is None and view is not None and self._has_lease:
            await self._write_outcome(request, view, record, record.outcome)
            return DONE
        decided = self._next_step(view, record)
        step = await self._start_if_confirmed(request, record) if isinstance(decided, Start) else decided
        match step:
            case Stop():
                self._stop(request, record, step.reason)
            case Forget():
                self._waiting.pop(request, None)
                if record.run is None:
                    self._records.pop(request, None)
            case Wait(until=until):
                return Result(None if until is None else max(0.001, until - self._environment.now()))
            case Release() if view is not None:
                await self._release(request, view)
            case Fail() if view is not None:
                await self._write_outcome(request, view, record, Outcome.failed(HANDLER_FAILED))
        return DONE

    def _record_for(self, request: Request) -> _Record | None:
        """Return the record of the object: a new one for a new object or a new epoch, None for an unknown object."""
        view, record = self._views.get(request), self._records.get(request)
        if view is None or (record is not None and record.run is not None):
            return record
        if record is None or (record.uid, record.epoch) != (view.uid, view.epoch):
            record = self._records[request] = _Record(view.uid, view.epoch)
        return record

    @property
    def _has_lease(self) -> bool:
        return self._tenure.is_valid(self._environment.now())

    def _next_step(self, view: ObjectView | None, record: _Record) -> Step:
        run = record.run
        local = LocalState(
            running=None if run is None else run.work.epoch,
            running_uid="" if run is None else run.work.uid,
            failures=record.failures,
            resume_at=record.resume_at,
            settled=record.settled,
            forgone=self._forgone_epochs.epoch_of(record.uid),
        )
        situation = ExecutorState(
            self._incarnation,
            self._environment.now(),
            self._has_lease,
            self.draining,
            self._config.max_handler_failures,
        )
        return next_step(view, _generation(view), local, situation)

    async def _start_if_confirmed(self, request: Request, record: _Record) -> Step | None:
        """Start the handler if the server confirms that the object is owned; else return the step to take instead.

        Events may be late, and another executor may already work on the object. Therefore ask the server, not a cache.
        """
        if len(self._runs) + self._starting >= self._config.concurrency:
            self._waiting[request] = None
            return None
        self._waiting.pop(request, None)
        self._starting += 1
        try:
            content = await self._read_from_server(request)
        finally:
            self._starting -= 1
            self._wake_waiting()
        view = None if content is None else view_of(content, self._config.adapter)
        if view is not None and view.uid != record.uid:
            return Wait()  # the watch reports the successor
        step = self._next_step(view, record)
        if isinstance(step, Start) and content is not None and view is not None:
            self._start(request, record, content, view)
            return None
        return step

    async def _read_from_server(self, request: Request) -> Content | None:
        """Read the object from the server. A response that took too long is refused: it may be outdated."""
        limit_s = self._config.times.renew_deadline_s / 2
        asked_at = self._environment.now()
        try:
            async with asyncio.timeout(limit_s):
                content = await self._connected_writer.read(*request)
        except TimeoutError:
            content = None
        if self._environment.now() - asked_at >= limit_s:
            raise Retriable(f"{request} was not confirmed within {limit_s:g} s, so no handler starts")
        return content

    def _start(self, request: Request, record: _Record, content: Content, view: ObjectView) -> None:
        number = self._tenure.number

        def may_write() -> None:
            if not self._has_lease or self._tenure.number != number:
                raise NotOwner(f"{request}: the Lease of {self._name} is lost, so nothing is written")

        work = Work(self._connected_writer, content, view, may_write=may_write, now=self._environment.now)
        run = HandlerRun(self._handler, content, work, _generation(view), f"{self._name}: {request}")
        record.epoch, record.run = view.epoch, run
        self._runs[request] = run
        record.resume_at = record.settled = None
        run.task.add_done_callback(lambda _: self._record_result(request, record, run))
        self._log.debug("handler started", key=str(request), epoch=view.epoch)

    def _stop(self, request: Request, record: _Record, reason: StopReason) -> None:
        run = record.run
        if run is None or (reason is StopReason.NOT_OURS and self._has_completed(request, run)):
            return  # the handler is about to return by itself
        if run.stopped_for is not reason:
            self._log.info("handler cancelled", key=run.task.get_name(), reason=str(reason))
        if reason is StopReason.NOT_OURS and run.must_end_by is None:
            run.must_end_by = self._environment.now() + self._config.times.cancel_grace_s
        run.stop(reason)

    def _has_completed(self, request: Request, run: HandlerRun) -> bool:
        """Return whether this handler has completed the object."""
        view, work = self._views.get(request), run.work
        same = view is not None and (view.uid, view.epoch) == (work.uid, work.epoch)
        return same and view is not None and view.completed and work.finishing

    def _record_result(self, request: Request, record: _Record, run: HandlerRun) -> None:
        """Record the result of a handler after every part of it has ended."""
        record.run = None
        self._runs.pop(request, None)
        result, reason = run.result(), run.stopped_for
        if reason is StopReason.NO_PROGRESS and not isinstance(result, Outcome):
            result = TimeoutError(f"no heartbeat for {self._config.progress_timeout:g} s")
        if run.work.gives_up and not run.work.finishing:
            # like an assignment under an earlier lease, it is released, and can only come back under a new epoch
            self._forgone_epochs = ForgoneEpochs({**self._forgone_epochs.epochs, run.work.uid: run.work.epoch})
        elif isinstance(result, Outcome):
            record.failures = 0
            if result.successful is not None:
                record.outcome = result
            else:
                record.resume_at = self._environment.now() + result.after_s
        elif isinstance(result, Exception):
            if reason is None or reason is StopReason.NO_PROGRESS:
                self._record_failure(request, record, result)
            else:
                self._log.warning("handler failed while it stopped", key=str(request), exc_info=result)
        elif reason is None:
            record.failures = 0
            record.settled = run.generation
        self.queue.add(request)
        self._wake_waiting()

    def _record_failure(self, request: Request, record: _Record, problem: Exception) -> None:
        record.failures += 1
        delay_s = self._config.retries.delay_s(record.failures, getattr(problem, "after_s", None))
        record.resume_at = self._environment.now() + delay_s * (1 + _JITTER * self._environment.rng.random())
        self._log.warning(
            "handler failed", key=str(request), failures=record.failures, error=repr(problem), exc_info=problem
        )

    def _wake_waiting(self) -> None:
        """Queue the objects that have waited longest for a free slot."""
        for request in [*self._waiting][: max(0, self._config.concurrency - len(self._runs) - self._starting)]:
            self.queue.add(request)

    async def _write_outcome(self, request: Request, view: ObjectView, record: _Record, outcome: Outcome) -> None:
        """Complete the object. The queue retries a failed write."""
        record.outcome = outcome
        writer, successful = self._connected_writer, outcome.successful is True
        try:
            await writer.write(
                view.content,
                view.epoch,
                lambda content: writer.completed_content(content, successful, outcome.reason),
                self._check_lease,
            )
        except NotOwner as problem:
            self._log.info("late outcome dropped", key=str(request), error=str(problem))
        record.outcome = None

    async def _release(self, request: Request, view: ObjectView) -> None:
        try:
            await self._connected_writer.write(
                view.content, view.epoch, self._connected_writer.released_content, self._check_lease
            )
        except NotOwner as problem:
            self._log.info("release skipped, object no longer held", key=str(request), error=str(problem))
        else:
            self._log.info("object released", key=str(request), epoch=view.epoch)

    def _check_lease(self) -> None:
        if not self._has_lease:
            raise KubeError(
                f"the Lease of {self._name} is lost, so nothing is written until the executor holds it again"
            )

    @property
    def _connected_writer(self) -> FencedWriter:
        assert self.writer is not None, "an object was looked at before there was a connection"
        return self.writer

    def handle_change(self, old: Unstructured | None, new: Unstructured | None) -> None:
        """Take over a change from the watch."""
        seen = new or old
        assert seen is not None
        request = Request(seen.metadata.namespace, seen.metadata.name)
        if new is None:
            self._views.pop(request, None)
        else:
            before = self._views.get(request)
            view = self._views[request] = view_of(new.content, self._config.adapter)
            if view.faults and (before is None or before.faults != view.faults):
                self._log.warning("unreadable object left alone", key=str(request), error=view.faults[0])
            run = self._runs.get(request)
            if run is not None:
                run.work.update_content(self._views[request].content)
        self.queue.add(request)


def _generation(view: ObjectView | None) -> int:
    metadata: Mapping[str, Any] = {} if view is None else view.content.get("metadata") or {}
    found = metadata.get("generation")
    return found if isinstance(found, int) else 0
