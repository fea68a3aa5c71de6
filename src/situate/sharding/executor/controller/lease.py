"""Renew the Lease of one incarnation of an executor, and end the process when it must not continue.

`LeaseKeeper` is a coroutine. `LeaseThread` runs it on an event loop and a connection of its own. A handler that blocks
the executor's loop therefore cannot delay the end of the process. While the loop is blocked, renewals stop on purpose.
`situate.sharding.leases.tenure` computes how long work may continue.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import structlog

from situate.kube.client import Client
from situate.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from situate.kube.patches import MergePatch
from situate.objects.kinds.leases import Lease
from situate.objects.resources import LEASES
from situate.objects.values.timestamps import micro_time
from situate.sharding.leases.executor_report import ExecutorReport, report_text
from situate.sharding.leases.tenure import Tenure
from situate.sharding.model.names import EXECUTOR, EXECUTOR_UID, PARTITION, POOL, STATUS

EXIT_CODE: Final = 70
"""EX_SOFTWARE: a handler did not stop in time, and another executor may start with its object."""
STALL_LIMIT_S: Final = 5.0
RELEASE_S: Final = 3.0
"""How long a release of the Lease may delay the end of the process."""
CHECK_S: Final = 0.25
"""Delay after a suspend of the machine until the executor checks its right to work."""
_T = TypeVar("_T")


def clock() -> float:
    """Return seconds that never decrease, and that include suspends of the machine if the system can count them."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


@dataclass(frozen=True, slots=True)
class LeaseIdentity:
    """Name, holder and labels of one Lease."""

    namespace: str
    name: str
    pod: str
    uid: str
    """UID of the incarnation, written to `holderIdentity`."""
    pool: str
    partition: str = ""
    """Empty: not partitioned."""


class LoopHeartbeat:
    """A liveness check of the executor's event loop: the loop reports, another thread checks."""

    def __init__(self, now: Callable[[], float], limit_s: float = STALL_LIMIT_S) -> None:
        self._now = now
        self._limit_s = limit_s
        self._last_beat = now()

    @property
    def interval_s(self) -> float:
        """Interval at which the loop should call `record_beat`."""
        return self._limit_s / 10

    def record_beat(self) -> None:
        self._last_beat = self._now()

    def is_stalled(self) -> bool:
        """Return whether the last `record_beat` is longer ago than the limit."""
        return self._now() - self._last_beat > self._limit_s


@dataclass(frozen=True, slots=True)
class LeaseCallbacks:
    """Callbacks into the executor. The keeper calls all of them in its own thread."""

    report: Callable[[], ExecutorReport]
    busy: Callable[[], bool]
    """Whether a handler runs, cancelled or not."""
    stalled: Callable[[], bool]
    lost: Callable[[], None]
    """Called once per tenure, when its deadline has passed."""


class LeaseKeeper:
    """Renews until `stop`, then releases the lease if no handler runs. Raises no API errors."""

    def __init__(
        self,
        client: Client,
        lease: LeaseIdentity,
        tenure: Tenure,
        patient: LeaseCallbacks,
        *,
        now: Callable[[], float] = clock,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        end_process: Callable[[int], Any] = os._exit,
    ) -> None:
        """`end_process` does not return, except in tests."""
        self.found_before = False
        """Whether an earlier process of this incarnation has held the lease, because the Pod's container restarted."""
        self.problem: str | None = None
        """Why the last attempt failed; None after a success."""
        self.renewals = 0
        self._client = client
        self._lease = lease
        self._tenure = tenure
        self._callbacks = patient
        self._now = now
        self._wall = wall
        self._end_process = end_process
        self._version = ""  # of the Lease as last seen; empty: must be read
        self._holds = False  # the Lease names this incarnation because this process wrote it
        self._acquired = ""  # acquireTime of the current holding
        self._next = -math.inf
        self._reported_loss = 0  # number of the tenure whose loss was reported
        self._stopping = False
        self._woken = asyncio.Event()
        self._log = structlog.get_logger().bind(lease=f"{lease.namespace}/{lease.name}", identity=lease.uid)

    def holds_lease(self) -> bool:
        """Return whether this process held the lease at its last request. The tenure says how long that is valid."""
        return self._holds

    def renew_now(self) -> None:
        """Renew at once, because the report has changed."""
        self._next = -math.inf
        self._woken.set()

    def check_now(self) -> None:
        """Check again what is due. The keeper's clock may have advanced while the loop's clock did not."""
        self._woken.set()

    def stop(self) -> None:
        """End `run`. The lease is released unless a handler still runs."""
        self._stopping = True
        self._woken.set()

    async def run(self) -> None:
        attempt: asyncio.Task[None] | None = None
        try:
            while not self._stopping:
                self._enforce_deadlines()
                if attempt is not None and attempt.done():
                    attempt.result()
                    attempt = None
                if attempt is None and self._now() >= self._next and self._may_renew():
                    attempt = asyncio.ensure_future(self._try_renewal())
                    attempt.add_done_callback(lambda _: self._woken.set())
                await self._pause()
        finally:
            if attempt is not None:
                attempt.cancel()
                await asyncio.wait([attempt])
        if self._holds and not self._callbacks.busy():
            await self._release()

    def _may_renew(self) -> bool:
        """Return False if the event loop is blocked, or if a handler of a lost tenure still runs."""
        return not self._callbacks.stalled() and not (self._tenure.over and self._callbacks.busy())

    def _enforce_deadlines(self) -> None:
        """Handle the deadlines: the loss of the tenure, and the end of the process."""
        tenure, now = self._tenure, self._now()
        if not tenure.over and now >= tenure.deadline:
            tenure.lose(tenure.deadline)  # not the current time: a process that was paused gets no grace
        if tenure.over and tenure.number > self._reported_loss:
            self._reported_loss = tenure.number
            self._log.warning(
                "right to work lost", error=self.problem or "no renewal of the Lease, or no progress of the watch"
            )
            self._callbacks.lost()
        if tenure.over and now >= tenure.ends_process_at() and self._callbacks.busy():
            self._log.error("handler did not stop in time, process ends", status=EXIT_CODE)
            self._end_process(EXIT_CODE)

    async def _pause(self) -> None:
        """Wait until something is due.

        The executor's thread can begin a tenure, unblock its loop or end a handler. Only while one of these is awaited,
        the wait ends four times in `retry_s`.
        """
        tenure, now = self._tenure, self._now()
        due = [self._next, tenure.deadline, tenure.ends_process_at()]
        if tenure.over or not self._may_renew():
            due.append(now + tenure.times.retry_s / 4)
        seconds = max(0.001, min((when for when in due if when > now), default=now) - now)
        self._woken.clear()
        if self._stopping:
            return
        timer = asyncio.get_running_loop().call_later(seconds, self._woken.set)  # a third of the cost of a waiting task
        try:
            await self._woken.wait()
        finally:
            timer.cancel()

    async def _try_renewal(self) -> None:
        """Try one renewal; a failure is stored as `problem`."""
        times = self._tenure.times
        self._next = self._now() + times.retry_s
        try:
            async with asyncio.timeout(times.renew_deadline_s / 2):
                sent_at = self._now()
                if not await self._renew():
                    return
        except TimeoutError:
            self._record_failure(f"no answer within {times.renew_deadline_s / 2:g} s")
        except KubeError as problem:
            self._record_failure(str(problem))
        else:
            self.problem = None
            self.renewals += 1
            self._tenure.record_renewal(sent_at)
            self._next = sent_at + times.renew_s

    def _record_failure(self, problem: str) -> None:
        self._version = ""  # whether the write was stored is unknown
        if problem != self.problem:
            self._log.warning("lease renewal failed", error=problem)
        self.problem = problem

    async def _renew(self) -> bool:
        """Return whether this process holds the lease now. False: another client changed it, so read it again."""
        if not self._version and not await self._read():
            return await self._create()
        body = {"metadata": {**self._metadata(), "resourceVersion": self._version}, "spec": self._spec(self._lease.uid)}
        try:
            written = await self._client.patch(LEASES, self._lease.name, MergePatch(body), self._lease.namespace)
        except (Conflict, NotFound):
            self._version = ""
            self._next = self._now()
            return False
        self._record_lease(written)
        return True

    async def _read(self) -> bool:
        """Return whether the Lease exists. If another holder has replaced this incarnation, the lease is lost."""
        try:
            found = await self._client.get(LEASES, self._lease.name, self._lease.namespace)
        except NotFound:
            return False
        self._version = found.metadata.resource_version
        if not self._holds:
            self.found_before = True  # or the response to our own create was lost
        elif found.spec.holder_identity != self._lease.uid:
            self._handle_takeover(found.spec.holder_identity)
        return True

    def _handle_takeover(self, holder: str) -> None:
        self._log.warning("lease taken by another holder", holder=holder)
        self._holds = False
        self._tenure.record_release()
        if not self._tenure.over:
            self._tenure.lose(self._now())

    async def _create(self) -> bool:
        metadata = {**self._metadata(), "name": self._lease.name, "namespace": self._lease.namespace}
        content = {"metadata": metadata, "spec": self._spec(self._lease.uid)}
        try:
            self._record_lease(await self._client.create(LEASES, content, self._lease.namespace))
        except AlreadyExists:
            self._next = self._now()
            return False
        return True

    def _record_lease(self, lease: Lease) -> None:
        self._version = lease.metadata.resource_version
        self._holds = True

    def _metadata(self) -> dict[str, Any]:
        labels = {POOL: self._lease.pool, **({PARTITION: self._lease.partition} if self._lease.partition else {})}
        annotations = {
            EXECUTOR: self._lease.pod,
            EXECUTOR_UID: self._lease.uid,
            STATUS: report_text(self._callbacks.report()),
        }
        return {"labels": labels, "annotations": annotations}

    def _spec(self, holder: str) -> dict[str, Any]:
        now = micro_time(self._wall())
        if not self._holds:
            self._acquired = now
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": max(1, math.ceil(self._tenure.times.lease_s)),
            "acquireTime": self._acquired,
            "renewTime": now,
        }

    async def _release(self) -> None:
        """Release the Lease: supervisors then know that no handler runs. If that fails, they wait until it expires."""
        try:
            async with asyncio.timeout(RELEASE_S):
                while self._holds and not await self._write_release():
                    pass
        except (TimeoutError, KubeError) as problem:
            self._log.warning("lease release failed", error=str(problem) or "no answer")
            return
        if not self._holds:
            return
        self._holds = False
        self._tenure.record_release()
        self._tenure.lose(self._now())
        self._log.info("lease released")

    async def _write_release(self) -> bool:
        """Return whether the lease has no holder now. False: another client changed or took it, so read it again.

        Like a renewal, this write requires the version that was last seen. A late write could otherwise release the
        lease of the Pod's next process, which has the same name.
        """
        if not self._version and not await self._read():
            return True
        if not self._holds:
            return False
        body = {"metadata": {**self._metadata(), "resourceVersion": self._version}, "spec": self._spec("")}
        try:
            await self._client.patch(LEASES, self._lease.name, MergePatch(body), self._lease.namespace)
        except (Conflict, NotFound):
            self._version = ""
            return False
        return True


class LeaseThread:
    """A keeper in a thread of its own. Its client is created and closed in this thread."""

    def __init__(self, connect: Callable[[], Client], keeper: Callable[[Client], LeaseKeeper]) -> None:
        self._connect = connect
        self._make = keeper
        self.keeper: LeaseKeeper | None = None
        """None until the thread has created it."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="executor lease", daemon=True)
        self._failure: BaseException | None = None
        self._stop_requested = False

    def start(self) -> None:
        self._thread.start()

    def renew_now(self) -> None:
        """Call `LeaseKeeper.renew_now`, from any thread."""
        self._call(LeaseKeeper.renew_now)

    def stop(self) -> None:
        """Call `LeaseKeeper.stop`, from any thread."""
        self._stop_requested = True
        self._call(LeaseKeeper.stop)

    async def wait_ended(self) -> None:
        """Wait until the thread has ended. Raises its error, if the thread did not end by `stop`."""
        while self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, 1.0)
        if self._failure is not None:
            raise self._failure

    def _call(self, what: Callable[[LeaseKeeper], None]) -> None:
        keeper, loop = self.keeper, self._loop
        if keeper is not None and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(what, keeper)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as failure:  # raised in `wait_ended`
            self._failure = failure

    async def _main(self) -> None:
        client = self._connect()
        try:
            self._loop = asyncio.get_running_loop()
            self.keeper = self._make(client)
            if self._stop_requested:
                self.keeper.stop()
            looking = asyncio.create_task(self._check_regularly(self.keeper))
            try:
                await self.keeper.run()
            finally:
                looking.cancel()
        finally:
            await client.close()

    async def _check_regularly(self, keeper: LeaseKeeper) -> None:
        """Wake the keeper regularly: in a suspend, `clock` advances, and the timers of event loops do not."""
        while True:
            await asyncio.sleep(CHECK_S)
            keeper.check_now()
