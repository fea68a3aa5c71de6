"""Runs handlers for the objects that are assigned to this incarnation: KSched's `Executor`, made safe.

What to do about an object is decided in `situate.sharding.executing`; here it is watched, started, stopped and written.
The Lease lives in a thread of its own (`lease`), what handlers may write is `work`'s.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import structlog

from situate.kube.client import Client
from situate.kube.errors import KubeError
from situate.kube.reflector import Reflector
from situate.kube.store import Store
from situate.objects.unstructured import Unstructured
from situate.runtime.manager import Manager
from situate.runtime.outcomes import DONE, Result
from situate.runtime.reconciler import Reconciler
from situate.runtime.workqueue import WorkQueue
from situate.sharding.adapter import Content
from situate.sharding.assignment import ObjectView, view_of
from situate.sharding.controller.lease import EXIT_CODE, Heart, LeaseKeeper, LeaseOf, LeaseThread, Patient, clock
from situate.sharding.controller.runs import Handler, Run
from situate.sharding.controller.work import Kind, NotOwner, Work, Writer
from situate.sharding.executing import (
    Fail,
    Forget,
    Forgone,
    Local,
    Outcome,
    Release,
    Rest,
    Situation,
    Start,
    Step,
    Stop,
    StopReason,
    next_step,
    owns,
)
from situate.sharding.executor_configuration import ExecutorConfig, ExecutorIdentity
from situate.sharding.reports import Report
from situate.sharding.tenure import Tenure

HANDLER_FAILED: Final = "HandlerFailed"
"""`status.reason` of an object whose handler has failed too often."""
_MOST_WORKERS: Final = 32
_JITTER: Final = 0.5


class Request(NamedTuple):
    """Which object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(slots=True)
class _Record:
    """What is remembered of one object, by uid."""

    uid: str
    run: Run | None = None
    outcome: Outcome | None = None
    """To be written; None: nothing is."""
    failures: int = 0
    resume_at: float | None = None
    settled: int | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where an executor runs. Other than the defaults only where time or the network is simulated."""

    rng: random.Random = field(default_factory=random.Random)
    now: Callable[[], float] = clock
    wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    end_process: Callable[[int], Any] = os._exit
    own_thread: bool = True
    """Whether the lease is kept in a thread of its own."""


class Executor:
    """A service: `run` until `stop`, which drains. `setup` adds it to a manager.

    executor = Executor(identity, handler, config, connect)
    executor.setup(manager)
    """

    def __init__(
        self,
        identity: ExecutorIdentity,
        handler: Handler,
        config: ExecutorConfig,
        connect: Callable[[], Client],
        surroundings: Surroundings = Surroundings(),
    ) -> None:
        """`connect` makes a client in the event loop where it is called: one for the work, one for the Lease."""
        self.identity = identity
        self.config = config
        self.name = f"executor {identity.id}"
        self.tenure = Tenure(config.times)
        self.store: Store[Unstructured] = Store(config.resource.plural)
        self._handler = handler
        self._connect = connect
        self._around = surroundings
        self._me = identity.me
        self._kind = Kind(config.resource, config.adapter, config.status_subresource)
        self._heart = Heart(surroundings.now, config.stall_limit)
        self._views: dict[Request, ObjectView] = {}
        self._records: dict[Request, _Record] = {}
        self._runs: dict[Request, Run] = {}
        self._starting = 0
        self._waiting: dict[Request, None] = {}
        self._forgone = Forgone()
        self._begun = asyncio.Event()
        self._stopping = asyncio.Event()
        self._report = Report(capacity=config.capacity)
        self._queue: WorkQueue[Request] = WorkQueue(rng=surroundings.rng)
        self._writer: Writer | None = None
        self._reflector: Reflector[Unstructured] | None = None
        self._lease: LeaseThread | None = None
        self._keeper: LeaseKeeper | None = None
        self._relisting: asyncio.Task[None] | None = None
        self._log = structlog.get_logger().bind(controller=self.name)
        self.store.on_change(self._changed)

    def setup(self, manager: Manager) -> None:
        """Runs with the manager; what is added after it starts when the lease is held and the objects are known."""
        manager.add(self, ready=self.wait_begun)

    async def wait_begun(self) -> None:
        """Until it may work for the first time."""
        await self._begun.wait()

    def not_ready(self) -> str | None:
        """For readiness: why it may not work now; None if it may."""
        if self.tenure.valid(self._around.now()):
            return None
        problem = self._reflector.not_ready() if self._reflector is not None else "it has not been started"
        return (
            f"{self.name} holds no valid lease: {problem or (self._keeper and self._keeper.problem) or 'not renewed'}"
        )

    def stop(self) -> None:
        """Ends `run` when everything has been stopped and released, and the lease given back."""
        self._stopping.set()

    def owns(self, obj: Content | None = None, /, **kopf: Any) -> bool:
        """Whether this process is to work on the object now. Also for `when=` of Kopf's handlers, which pass `body`."""
        view = view_of(obj if obj is not None else kopf["body"], self.config.adapter)
        leased = self.tenure.valid(self._around.now()) and not self._stopping.is_set()
        return leased and owns(view, self._me) and view.epoch > self._forgone.of(view.uid)

    async def run(self) -> None:
        """Works until `stop`; then everything is stopped, released and given back. Cancelled, it stops what it can."""
        around = self._around
        client = self._connect()
        label, field_ = self.config.selectors(self._me.id)
        reflector = self._reflector = Reflector(
            client,
            self.config.resource,
            self.store,
            rng=around.rng,
            namespace=self.config.namespace,
            label_selector=label,
            field_selector=field_,
        )
        self._writer = Writer(client, self._kind, self._me, wall=around.wall, learn=reflector.learn)
        workers = max(2, min(self.config.concurrency, _MOST_WORKERS))
        reconciler = Reconciler(self.name, self._queue, self.reconcile, workers=workers)
        lease = asyncio.create_task(self._keep_lease(), name=f"{self.name}: lease")
        others = [
            asyncio.create_task(reflector.run(), name=reflector.name),
            asyncio.create_task(reconciler.run(), name=f"{self.name}: objects"),
            asyncio.create_task(self._mind(reflector), name=f"{self.name}: tenure"),
            asyncio.create_task(self._beat(), name=f"{self.name}: heart"),
        ]
        draining = asyncio.create_task(self._drained(), name=f"{self.name}: drain")
        try:
            await asyncio.wait([lease, draining, *others], return_when=asyncio.FIRST_COMPLETED)
            _raise_first(lease, *others)
        finally:
            await self._end_handlers()
            self._stop_lease()
            await asyncio.wait([lease])
            for task in (draining, *others):
                task.cancel()
            await asyncio.wait([draining, *others])
            await client.close()
        _raise_first(lease)

    async def reconcile(self, request: Request) -> Result:
        """Looks at one object and does the one thing that is to be done about it."""
        view, record = self._views.get(request), self._records.get(request)
        if record is None or (record.run is None and view is not None and view.uid != record.uid):
            if view is None:
                return DONE
            record = self._records[request] = _Record(view.uid)
        if record.outcome is not None and record.run is None and view is not None and self._leased:
            await self._write_outcome(request, view, record, record.outcome)
            return DONE
        decided = self._next(view, record)
        step = await self._begin(request, record) if isinstance(decided, Start) else decided
        match step:
            case Stop():
                self._stop(request, record, step.reason)
            case Forget():
                self._waiting.pop(request, None)
                if record.run is None:
                    self._records.pop(request, None)
            case Rest(until=until):
                return Result(None if until is None else max(0.001, until - self._around.now()))
            case Release() if view is not None:
                await self._release(request, view)
            case Fail() if view is not None:
                await self._write_outcome(request, view, record, Outcome.failed(HANDLER_FAILED))
        return DONE

    @property
    def _leased(self) -> bool:
        return self.tenure.valid(self._around.now())

    def _next(self, view: ObjectView | None, record: _Record) -> Step:
        run = record.run
        local = Local(
            running=None if run is None else run.work.epoch,
            running_uid="" if run is None else run.work.uid,
            failures=record.failures,
            resume_at=record.resume_at,
            settled=record.settled,
            forgone=self._forgone.of(record.uid),
        )
        situation = Situation(
            self._me, self._around.now(), self._leased, self._stopping.is_set(), self.config.max_handler_failures
        )
        return next_step(view, _generation(view), local, situation)

    async def _begin(self, request: Request, record: _Record) -> Step | None:
        """Starts the handler if the server confirms that the object is ours; else the step that is to be taken instead.

        Events may be late, and somebody else be at work already: the server is asked, and not its caches.
        """
        if len(self._runs) + self._starting >= self.config.concurrency:
            self._waiting[request] = None
            return None
        self._waiting.pop(request, None)
        self._starting += 1
        try:
            content = await self._known_writer.read(*request)
        finally:
            self._starting -= 1
            self._wake_waiting()
        view = None if content is None else view_of(content, self.config.adapter)
        if view is not None and view.uid != record.uid:
            return Rest()  # the watch will tell of the successor
        step = self._next(view, record)
        if isinstance(step, Start) and content is not None and view is not None:
            self._start(request, record, content, view)
            return None
        return step

    def _start(self, request: Request, record: _Record, content: Content, view: ObjectView) -> None:
        number = self.tenure.number

        def may_write() -> None:
            if not self._leased or self.tenure.number != number:
                raise NotOwner(f"{request}: the lease of {self.name} is lost, so nothing is written")

        work = Work(self._known_writer, content, view, may_write=may_write, now=self._around.now)
        run = Run(self._handler, content, work, _generation(view), f"{self.name}: {request}")
        record.run = self._runs[request] = run
        record.resume_at = record.settled = None
        run.task.add_done_callback(lambda _: self._ended(request, record, run))
        self._log.debug("a handler starts", key=str(request), epoch=view.epoch)

    def _stop(self, request: Request, record: _Record, reason: StopReason) -> None:
        run = record.run
        if run is None or (reason is StopReason.NOT_OURS and self._completed_by(request, run)):
            return  # about to return by itself
        if run.stopped_for is not reason:
            self._log.info("a handler is cancelled", key=run.task.get_name(), reason=str(reason))
        if reason is StopReason.NOT_OURS and run.must_end_by is None:
            run.must_end_by = self._around.now() + self.config.times.cancel_grace_s
        run.stop(reason)

    def _completed_by(self, request: Request, run: Run) -> bool:
        """Whether the object is completed, and by this handler."""
        view, work = self._views.get(request), run.work
        same = view is not None and (view.uid, view.epoch) == (work.uid, work.epoch)
        return same and view is not None and view.completed and work.finishing

    def _ended(self, request: Request, record: _Record, run: Run) -> None:
        """Nothing of the handler runs any more."""
        record.run = None
        self._runs.pop(request, None)
        result, reason = run.result(), run.stopped_for
        if reason is StopReason.NO_PROGRESS and not isinstance(result, Outcome):
            result = TimeoutError(f"no heartbeat for {self.config.progress_timeout:g} s")
        if run.work.gives_up and not run.work.finishing:
            # as an assignment under an earlier lease: it is released, and comes back under a new epoch if at all
            self._forgone = Forgone({**self._forgone.epochs, run.work.uid: run.work.epoch})
        elif isinstance(result, Outcome):
            record.failures = 0
            if result.successful is not None:
                record.outcome = result
            else:
                record.resume_at = self._around.now() + result.after_s
        elif isinstance(result, Exception):
            if reason is None or reason is StopReason.NO_PROGRESS:
                self._failed(request, record, result)
        elif reason is None:
            record.failures = 0
            record.settled = run.generation
        self._queue.add(request)
        self._wake_waiting()

    def _failed(self, request: Request, record: _Record, problem: Exception) -> None:
        record.failures += 1
        delay_s = self.config.retries.delay_s(record.failures, getattr(problem, "after_s", None))
        record.resume_at = self._around.now() + delay_s * (1 + _JITTER * self._around.rng.random())
        self._log.warning(
            "a handler has failed", key=str(request), failures=record.failures, error=repr(problem), exc_info=problem
        )

    def _wake_waiting(self) -> None:
        """Whoever has waited longest for a place looks again."""
        for request in [*self._waiting][: max(0, self.config.concurrency - len(self._runs) - self._starting)]:
            self._queue.add(request)

    async def _write_outcome(self, request: Request, view: ObjectView, record: _Record, outcome: Outcome) -> None:
        """Completes the object; what cannot be written now is tried again by the queue."""
        record.outcome = outcome
        writer, successful = self._known_writer, outcome.successful is True
        try:
            await writer.write(
                view.content,
                view.epoch,
                lambda content: writer.completed(content, successful, outcome.reason),
                self._may_write,
            )
        except NotOwner as problem:
            self._log.info("an outcome comes too late", key=str(request), error=str(problem))
        record.outcome = None

    async def _release(self, request: Request, view: ObjectView) -> None:
        try:
            await self._known_writer.write(view.content, view.epoch, self._known_writer.released, self._may_write)
        except NotOwner as problem:
            self._log.info("there is nothing left to release", key=str(request), error=str(problem))
        else:
            self._log.info("an object is released", key=str(request), epoch=view.epoch)

    def _may_write(self) -> None:
        if not self._leased:
            raise KubeError(f"the lease of {self.name} is lost, so nothing is written until it is held again")

    @property
    def _known_writer(self) -> Writer:
        assert self._writer is not None, "reconcile was called before run"
        return self._writer

    def _changed(self, old: Unstructured | None, new: Unstructured | None) -> None:
        """The watch has told of an object."""
        seen = new or old
        assert seen is not None
        request = Request(seen.metadata.namespace, seen.metadata.name)
        if new is None:
            self._views.pop(request, None)
        else:
            self._views[request] = view_of(new.content, self.config.adapter)
            run = self._runs.get(request)
            if run is not None:
                run.work.saw(self._views[request].content)
        self._queue.add(request)

    async def _keep_lease(self) -> None:
        """Until it is stopped. Raises what no world brings about."""
        loop = asyncio.get_running_loop()
        around, identity, config = self._around, self.identity, self.config

        def make(client: Client) -> LeaseKeeper:
            def lost() -> None:
                if around.own_thread:
                    loop.call_soon_threadsafe(self._lost)
                else:
                    self._lost()

            of = LeaseOf(
                identity.namespace,
                config.lease_name(identity),
                identity.pod,
                identity.uid,
                config.pool,
                config.partition,
            )
            patient = Patient(self._reported, lambda: bool(self._runs), self._heart.stalled, lost)
            self._keeper = LeaseKeeper(
                client, of, self.tenure, patient, now=around.now, wall=around.wall, end_process=around.end_process
            )
            return self._keeper

        if not around.own_thread:
            client = self._connect()
            try:
                await make(client).run()
            finally:
                await client.close()
            return
        self._lease = LeaseThread(self._connect, make)
        self._lease.start()
        await self._lease.ended()

    def _stop_lease(self) -> None:
        if self._lease is not None:
            self._lease.stop()
        elif self._keeper is not None:
            self._keeper.stop()

    def _reported(self) -> Report:
        return replace(self._report, metrics=dict(self.config.metrics()))

    def _lost(self) -> None:
        """The tenure is over: every handler is cancelled."""
        for request in self._runs:
            self._stop(request, self._records[request], StopReason.LEASE_LOST)

    async def _mind(self, reflector: Reflector[Unstructured]) -> None:
        """Looks whether the watch goes on, begins tenures, and looks after handlers that do not stop."""
        deadline_s = self.config.times.renew_deadline_s
        seen, looked_at = -1, self._around.now()
        while True:
            now = self._around.now()
            counts = reflector.counts
            if (progress := counts.events + counts.bookmarks + counts.listings) != seen and self.store.synced:
                seen = progress
                self.tenure.knows(looked_at)  # what has come since then came at that moment or later
            looked_at = now
            if self.tenure.over:
                await self._try_to_begin(reflector)
            elif now - self.tenure.known_at > deadline_s / 2 and self._relisting is None:
                self._relisting = asyncio.create_task(self._relist(reflector))
            self._look_after_handlers(now)
            self._tell()
            await asyncio.sleep(deadline_s / 20)

    async def _beat(self) -> None:
        """As long as this event loop runs."""
        while True:
            self._heart.beat()
            await asyncio.sleep(self._heart.interval_s)

    async def _relist(self, reflector: Reflector[Unstructured]) -> None:
        """A quiet watch may be a broken one: a listing tells."""
        sent_at = self._around.now()
        try:
            async with asyncio.timeout(self.config.times.renew_deadline_s / 2):
                await reflector.relist()
        except (KubeError, TimeoutError) as problem:
            self._log.warning("the objects could not be listed", error=str(problem) or "no answer")
        else:
            self.tenure.knows(sent_at)
        finally:
            self._relisting = None

    async def _try_to_begin(self, reflector: Reflector[Unstructured]) -> None:
        """A tenure, when lease and objects are known to be good. What is found then is not worked on, but for the first
        time: it was given to us under a lease that is lost."""
        keeper = self._keeper
        again = self.tenure.number > 0 or (keeper is not None and keeper.found_before)
        if self._runs or self._stopping.is_set() or keeper is None or not keeper.holds() or not self.store.synced:
            return
        if again:
            await self._relist(reflector)
        if self._runs or not self.tenure.may_begin(self._around.now()):
            return
        if again:
            self._forgone = Forgone().with_all({view.uid: view for view in self._views.values()}, self._me)
        self.tenure.begin()
        self._begun.set()
        self._log.info("the executor may work", tenure=self.tenure.number, released=len(self._forgone.epochs))
        for request in self._views:
            self._queue.add(request)

    def _look_after_handlers(self, now: float) -> None:
        limit_s = self.config.progress_timeout
        for request, run in [*self._runs.items()]:
            if run.must_end_by is not None and now >= run.must_end_by:
                self._log.error("a handler has not stopped in time, so the process ends", key=str(request))
                self._around.end_process(EXIT_CODE)
            elif limit_s is not None and run.stopped_for is None and now - run.work.beat_at > limit_s:
                self._stop(request, self._records[request], StopReason.NO_PROGRESS)

    def _tell(self) -> None:
        """What the Lease shall say of us."""
        held = sum(owns(view, self._me) for view in self._views.values())
        draining = self._stopping.is_set()
        report = replace(self._report, open=held, draining=draining)
        urgent = report.draining != self._report.draining
        self._report = report
        if urgent and self._lease is not None:
            self._lease.poke()
        elif urgent and self._keeper is not None:
            self._keeper.poke()

    async def _drained(self) -> None:
        """After `stop`: until nothing runs, and nothing is ours any more, or may be released."""
        await self._stopping.wait()
        self._tell()
        while True:
            for request in [*self._views, *self._runs]:
                self._queue.add(request)
            held = any(owns(view, self._me) for view in self._views.values()) and self._leased
            if not self._runs and not self._starting and not held:
                return
            await asyncio.sleep(self.config.times.retry_s / 2)

    async def _end_handlers(self) -> None:
        """Cancels what still runs, when the end cannot be waited for; what ignores that ends with the process."""
        for run in self._runs.values():
            run.stop(StopReason.LEASE_LOST)
        if tasks := [run.task for run in self._runs.values()]:
            await asyncio.wait(tasks, timeout=self.config.times.cancel_grace_s)
        await asyncio.sleep(0)  # what has ended tells of it
        if self._runs:
            self._log.error("handlers have not stopped in time, so the process ends", keys=[*map(str, self._runs)])
            self._around.end_process(EXIT_CODE)


def _generation(view: ObjectView | None) -> int:
    metadata: Mapping[str, Any] = {} if view is None else view.content.get("metadata") or {}
    found = metadata.get("generation")
    return found if isinstance(found, int) else 0


def _raise_first(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()
