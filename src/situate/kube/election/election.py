"""Leader election over a Lease: at no moment do two processes believe that they lead.

A candidate takes a Lease if, by its own monotonic clock, it has seen no renewal for the Lease's duration. Clocks of
different machines are never compared. A leader counts from the moment before it sent its last successful renewal. It
stops `lease_s - renew_deadline_s` before any other process may take over. `Leadership.is_valid` is correct even in a
process that was suspended and resumes long after: call it before every write.

The rules of the record itself are in `situate.kube.election.lease_record`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

import structlog

from situate.kube.client import Client
from situate.kube.election.lease_record import (
    ElectionTimes,
    LeaseName,
    LeaseRecord,
    acquired_content,
    free_at,
    released_content,
    renewed_content,
)
from situate.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from situate.kube.patches import MergePatch
from situate.objects.resources import LEASES

JITTER: Final = 1.2
"""A candidate waits up to (1 + this) times the retry period, as in client-go."""
RELEASE_S: Final = 3.0
"""How long a release may delay the end of the process."""
_SPREAD: Final = 0.1
"""Share of the retry period over which candidates spread their attempts when a Lease expires."""
_MOST_ATTEMPTS: Final = 64
"""Writes without an answer that are remembered, to recognise them when the Lease is read."""
_RENEWAL_TRIES: Final = 3
"""Attempts to write one renewal when other clients change the Lease between read and write."""


class ElectionChange(Enum):
    """Change reported to observers; a label of the metrics."""

    ACQUIRED = "acquired"
    RENEWED = "renewed"
    FAILED = "failed"
    """An attempt to acquire or renew failed; leadership lasts until its deadline."""
    LOST = "lost"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class ElectionEvent:
    """One change of an election, as observers receive it."""

    change: ElectionChange
    lease: LeaseName
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Candidacy:
    """The namespace, identity and times with which a process takes part in elections."""

    namespace: str
    """The namespace of its Leases."""
    identity: str
    times: ElectionTimes = field(default_factory=ElectionTimes)


class Leadership:
    """One term as leader. A term that is over never becomes valid again; the next term is another object."""

    def __init__(self, term: int, clock: Callable[[], float], wall_clock: Callable[[], datetime]) -> None:
        self.term = term
        """The Lease's `leaseTransitions`: grows with every change of the holder, so it orders leaders."""
        self._clock = clock
        self._wall_clock = wall_clock
        self._valid_until = float("-inf")
        self._wall_valid_until: datetime | None = None
        self._over = False

    def is_valid(self) -> bool:
        """Whether no other process can lead at this moment. Cheap; call it right before each write.

        The wall clock is checked as well: the monotonic clock stops while a machine is suspended. A term found to have
        lapsed stays over, even if a clock is set back or a renewal lands late. Its callers have given up by then.
        """
        if self._over or self._wall_valid_until is None:
            return False
        self._over = self._clock() >= self._valid_until or self._wall_clock() >= self._wall_valid_until
        return not self._over

    def remaining_s(self) -> float:
        """How long the term stays valid without a renewal; 0 when it is not valid. Bounds the time-out of a write."""
        return max(0.0, self._valid_until - self._clock()) if self.is_valid() else 0.0

    def extend(self, began: float, began_wall: datetime, by_s: float) -> None:
        """Extend the term by a successful write that began at that time. Only the elector calls this."""
        if not self._over and began + by_s > self._valid_until:
            self._valid_until = began + by_s
            self._wall_valid_until = began_wall + timedelta(seconds=by_s)

    def end(self) -> None:
        """End the term. Only the elector calls this."""
        self._over = True


Lead = Callable[[Leadership], Awaitable[None]]
"""The leader's work. Started when the Lease is acquired; cancelled and awaited when it is lost or released."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The start time of one write of this process, which its `renewTime` identifies."""

    began: float
    wall: datetime


class Elector:
    """A service that competes for a Lease in `run` until `stop` or cancellation, and then releases the Lease.

        elector = Elector(client, LeaseName("situate", "spot"), "pod-1_x7f", lead, wall_clock=clock, rng=rng)
        await elector.run()

    Pass a client whose rate limit other work cannot use up.
    """

    def __init__(
        self,
        client: Client,
        lease: LeaseName,
        identity: str,
        lead: Lead,
        *,
        wall_clock: Callable[[], datetime],
        rng: random.Random,
        times: ElectionTimes = ElectionTimes(),  # noqa: B008  # frozen
        observe: Callable[[ElectionEvent], None] = lambda _: None,
    ) -> None:
        """Take the Lease to compete for and the work of its leader.

        `identity` must be unique to this process. `observe` must not block. When `lead` returns by itself, the Lease is
        released and `run` ends, unless `step_down` was called. `run` raises the exceptions of `lead`.
        """
        self.lease = lease
        self.identity = identity
        self.name = f"election {lease}"
        self.holder = ""
        """The identity of the last known holder; empty if the Lease has none."""
        self.problem: str | None = None
        """Why the last attempt failed, in a sentence; None if it succeeded."""
        self._client = client
        self._lead = lead
        self._wall_clock = wall_clock
        self._rng = rng
        self._times = times
        self._observe = observe
        self._record: LeaseRecord | None = None
        self._seen_at = 0.0
        self._must_read = True  # `_record` may differ from the server's record
        self._timed_out = False  # the last attempt
        self._attempts: dict[datetime, _Attempt] = {}
        self._last_time: datetime | None = None
        self._leadership: Leadership | None = None
        self._stopping = asyncio.Event()
        self._woken = asyncio.Event()
        self._stepping_down = asyncio.Event()
        self._step_down_s = 0.0
        self._log = structlog.get_logger().bind(lease=str(lease), identity=identity)

    def is_leader(self) -> bool:
        """Whether this process leads at this moment."""
        return self._leadership is not None and self._leadership.is_valid()

    def stop(self) -> None:
        """End the term, if any, and `run`; the Lease is released."""
        self._stopping.set()
        self._woken.set()

    def step_down(self, stands_aside_s: float) -> None:
        """End the term, if any, and release the Lease; this process does not compete for `stands_aside_s` seconds.

        No effect on a candidate.
        """
        if self._leadership is not None:
            self._step_down_s = stands_aside_s
            self._stepping_down.set()

    def wake(self) -> None:
        """End a candidate's pause at once, because the Lease may be free. No effect on a leader."""
        self._woken.set()

    async def run(self) -> None:
        """Compete for the Lease, term after term. Raises only exceptions of `lead`."""
        try:
            while not self._stopping.is_set():
                await self._try_acquire_or_renew()
                if self._leadership is not None:
                    await self._run_term(self._leadership)
                    if self._stepping_down.is_set():
                        await self._wait_after_step_down()
                else:
                    await self._pause(self._candidate_pause_s())
        finally:
            await self._release()

    def _candidate_pause_s(self) -> float:
        """Return client-go's pause, shortened to the moment at which the Lease may be taken.

        A random share keeps candidates whose clocks agree from trying at the same instant.
        """
        usual = self._times.retry_s * (1 + JITTER * self._rng.random())
        if self._record is None:
            return usual
        left = free_at(self._record, self._seen_at, self._times) - _loop_time()
        return min(usual, left + self._times.retry_s * _SPREAD * self._rng.random()) if left > 0 else usual

    async def _pause(self, seconds: float) -> None:
        """Sleep; `wake` and `stop` end the pause early."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
        if not self._stopping.is_set():
            self._woken.clear()

    async def _wait_after_step_down(self) -> None:
        """Release the Lease and do not compete for `_step_down_s`; `wake` has no effect during that time."""
        self._stepping_down.clear()
        await self._release()
        try:
            async with asyncio.timeout(self._step_down_s):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def _run_term(self, leadership: Leadership) -> None:
        """Run one term: `lead`, and the renewals, which go on until `lead` has really ended."""
        lead = asyncio.ensure_future(self._lead(leadership))
        renewals = asyncio.ensure_future(self._renew(leadership))
        stopping = asyncio.ensure_future(self._stopping.wait())
        giving_way = asyncio.ensure_future(self._stepping_down.wait())
        by_itself = False
        try:
            await asyncio.wait((lead, renewals, stopping, giving_way), return_when=asyncio.FIRST_COMPLETED)
            by_itself = lead.done() and not self._stepping_down.is_set()
        finally:
            try:
                lead.cancel()
                await asyncio.wait([lead])
            finally:
                leadership.end()
                self._leadership = None
                for each in (renewals, stopping, giving_way):
                    each.cancel()
                await asyncio.wait([renewals, stopping, giving_way])
        if not renewals.cancelled():
            renewals.result()
        if by_itself:
            self._stopping.set()
        if not lead.cancelled():
            lead.result()

    async def _renew(self, leadership: Leadership) -> None:
        """Renew until the term is lost, end the term at that moment, and return."""
        while True:
            # An attempt that timed out has waited already; its outcome must be known before the deadline.
            pause_s = 0.0 if self._timed_out else self._times.retry_s
            await asyncio.sleep(min(pause_s, leadership.remaining_s()))
            if leadership.is_valid():
                await self._try_acquire_or_renew(leadership)
            if not leadership.is_valid():
                reason = (
                    f"the Lease was not renewed within {self._times.renew_deadline_s:g} s: "
                    f"{self.problem or 'the process was paused'}"
                )
            elif self._must_read or (self._record is not None and self._is_ours(self._record)):
                continue
            else:
                reason = f"{self.holder or 'no process'} holds the Lease" if self._record else "the Lease was deleted"
            leadership.end()
            self._log.warning("leadership lost", reason=reason)
            self._observe(ElectionEvent(ElectionChange.LOST, self.lease, reason))
            return

    async def _try_acquire_or_renew(self, leadership: Leadership | None = None) -> None:
        """Try once to take or renew the Lease; a failure is stored in `problem` and reported to the observer."""
        limit_s = self._times.renew_deadline_s / 2  # a request without an answer leaves time for another one
        if leadership is not None:
            left_s = leadership.remaining_s()
            limit_s = min(limit_s, max(left_s / 2, min(left_s, 1.0)))
        self._timed_out = False
        try:
            async with asyncio.timeout(limit_s):
                for _ in range(1 if leadership is None else _RENEWAL_TRIES):
                    if self._must_read or leadership is None:
                        await self._read()
                    content = self._next_content(leadership)
                    if content is None or await self._write(content, leadership):
                        break
        except TimeoutError:
            self._timed_out = True
            self._record_failure(f"no answer within {limit_s:.3g} s")
        except KubeError as problem:
            self._record_failure(str(problem))
        else:
            self.problem = None

    def _record_failure(self, problem: str) -> None:
        if problem != self.problem:
            self._log.warning("attempt to acquire or renew the lease failed", error=problem)
        self.problem = problem
        self._observe(ElectionEvent(ElectionChange.FAILED, self.lease, problem))

    async def _read(self) -> None:
        """Read the Lease; find out whether a write whose answer was lost has landed."""
        try:
            lease = await self._client.get(LEASES, self.lease.name, self.lease.namespace)
        except NotFound:
            self._set_observed_record(None)
            return
        record = LeaseRecord.from_lease(lease)
        self._set_observed_record(record)
        if self._leadership is not None and self._is_ours(record) and record.renewed is not None:
            self._extend(self._leadership, self._attempts[record.renewed])

    def _set_observed_record(self, record: LeaseRecord | None) -> None:
        """Store the record that the server returned."""
        known = self._record
        if record is None or known is None or not record.same_claim(known):
            self._seen_at = _loop_time()
        self._record = record
        self._must_read = False
        holder = record.holder if record is not None else ""
        if holder != self.holder:
            self.holder = holder
            self._log.info("lease holder changed", holder=holder)

    def _next_content(self, leadership: Leadership | None) -> dict[str, Any] | None:
        """Build the Lease's next content; None when this process must not write now."""
        record = self._record
        if leadership is not None:
            # Taken by another process, or deleted: no renewal brings this term back.
            ours = record is not None and self._is_ours(record)
            return renewed_content(record, self._next_time(), self._times) if record is not None and ours else None
        if record is None or self._is_ours(record) or _loop_time() >= free_at(record, self._seen_at, self._times):
            return acquired_content(record, self.identity, self._next_time(), self._times)
        return None

    def _is_ours(self, record: LeaseRecord) -> bool:
        """Whether this process wrote the record; its identity alone does not prove that."""
        return record.holder == self.identity and record.renewed in self._attempts

    async def _write(self, content: dict[str, Any], leadership: Leadership | None) -> bool:
        """Write the Lease; return False if another client changed it first, so that it must be read again.

        Raises the client's other errors.
        """
        assert self._last_time is not None
        attempt = self._attempts[self._last_time]
        record = await self._send_write(content)
        if record is None:
            return False
        self._set_observed_record(record)
        if leadership is None:
            leadership = Leadership(record.transitions, asyncio.get_running_loop().time, self._wall_clock)
            self._leadership = leadership
            self._extend(leadership, attempt)
            self._log.info("leadership acquired", term=record.transitions)
            self._observe(ElectionEvent(ElectionChange.ACQUIRED, self.lease))
        else:
            self._extend(leadership, attempt)
            self._observe(ElectionEvent(ElectionChange.RENEWED, self.lease))
        return True

    async def _send_write(self, content: dict[str, Any]) -> LeaseRecord | None:
        """Send the write and return the new record; None if the Lease had changed or was deleted."""
        name, namespace = self.lease.name, self.lease.namespace
        self._must_read = True  # until the answer arrives
        try:
            if self._record is None:
                content = content | {"metadata": {"name": name, "namespace": namespace}}
                return LeaseRecord.from_lease(await self._client.create(LEASES, content, namespace))
            return LeaseRecord.from_lease(await self._client.patch(LEASES, name, MergePatch(content), namespace))
        except (AlreadyExists, Conflict, NotFound):
            return None

    def _extend(self, leadership: Leadership, attempt: _Attempt) -> None:
        leadership.extend(attempt.began, attempt.wall, self._times.renew_deadline_s)

    def _next_time(self) -> datetime:
        """Choose a `renewTime` that no other write of this process has, to recognise the write when it is read back."""
        now = self._wall_clock()
        if self._last_time is not None:
            now = max(now, self._last_time + timedelta(microseconds=1))
        self._attempts[now] = _Attempt(_loop_time(), self._wall_clock())
        self._last_time = now
        while len(self._attempts) > _MOST_ATTEMPTS:
            del self._attempts[next(iter(self._attempts))]
        return now

    async def _release(self) -> None:
        """Release the Lease so that the next candidate takes over at once; otherwise it waits until it expires."""
        if not self._attempts:
            return
        try:
            async with asyncio.timeout(RELEASE_S):
                while True:
                    if self._must_read:
                        await self._read()
                    record = self._record
                    if record is None or not self._is_ours(record):
                        return
                    content = MergePatch(released_content(record, self._next_time()))
                    try:
                        await self._client.patch(LEASES, self.lease.name, content, self.lease.namespace)
                        break
                    except Conflict:
                        self._must_read = True  # another client changed a label; this process still holds it
        except (TimeoutError, KubeError) as problem:
            self._log.warning("lease release failed", error=str(problem) or "no answer")
            return
        self.holder = ""
        self._log.info("lease released")
        self._observe(ElectionEvent(ElectionChange.RELEASED, self.lease))


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
