"""Leader election over a Lease: at no moment do two processes believe that they lead.

A candidate takes a lease that, by its own monotonic clock, it has not seen renewed for the lease's duration; clocks of
different machines are never compared. A leader counts from the moment before it sent its last successful renewal, and
stops `lease_s - renew_deadline_s` before anybody may take over. `Leadership.valid_now` tells that truth even to a
process that was stopped and wakes up long after: ask it before every write.

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
from situate.kube.election.lease_record import ElectionTimes, LeaseName, Record, free_at, released, renewed, taken
from situate.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from situate.kube.patches import MergePatch
from situate.objects.resources import LEASES

JITTER: Final = 1.2
"""A candidate waits up to (1 + this) times the retry period, as in client-go."""
RELEASE_S: Final = 3.0
"""How long a release may hold up the end of the process."""
_APART: Final = 0.1
"""Of the retry period: candidates look so far apart when a lease is up."""
_REMEMBERED: Final = 64
"""Writes whose answer may yet be found by reading back."""
_TOUCHES: Final = 3
"""Writes of one renewal, if somebody changes something else about the Lease before each of the former."""


class ElectionChange(Enum):
    """What observers are told; a label of the metrics."""

    ACQUIRED = "acquired"
    RENEWED = "renewed"
    FAILED = "failed"
    """An attempt to acquire or renew met an error; leadership goes on until its deadline."""
    LOST = "lost"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class ElectionNews:
    """One thing that happened."""

    change: ElectionChange
    lease: LeaseName
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Candidacy:
    """How a process stands for elections."""

    namespace: str
    """Where its Leases are."""
    identity: str
    times: ElectionTimes = field(default_factory=ElectionTimes)


class Leadership:
    """One term as leader. Once it is over it never becomes valid again; the next term is another object."""

    def __init__(self, term: int, clock: Callable[[], float], wall_clock: Callable[[], datetime]) -> None:
        self.term = term
        """The Lease's `leaseTransitions`: grows with every change of the holder, so it orders leaders."""
        self._clock = clock
        self._wall_clock = wall_clock
        self._valid_until = float("-inf")
        self._wall_valid_until: datetime | None = None
        self._over = False

    def valid_now(self) -> bool:
        """Whether nobody else can lead at this moment. Cheap; ask it right before each write.

        The wall clock is asked as well: a suspended machine's monotonic clock stands still meanwhile. A term that was
        found to have lapsed stays so, though a clock be set back or a claim land late: whoever asked has given up.
        """
        if self._over or self._wall_valid_until is None:
            return False
        self._over = self._clock() >= self._valid_until or self._wall_clock() >= self._wall_valid_until
        return not self._over

    def remaining_s(self) -> float:
        """For how long it stays valid without a renewal; 0 when it is not. A bound for the time-out of a write."""
        return max(0.0, self._valid_until - self._clock()) if self.valid_now() else 0.0

    def extend(self, began: float, began_wall: datetime, by_s: float) -> None:
        """A claim that began then has landed. For the elector alone."""
        if not self._over and began + by_s > self._valid_until:
            self._valid_until = began + by_s
            self._wall_valid_until = began_wall + timedelta(seconds=by_s)

    def end(self) -> None:
        """The term is over. For the elector alone."""
        self._over = True


Lead = Callable[[Leadership], Awaitable[None]]
"""What a leader does. Started when the lease is won; cancelled when it is lost or given up, and awaited then."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One write of ours, known again by its renewTime."""

    began: float
    wall: datetime


class Elector:
    """A service: `run` until `stop` or cancellation; then the lease is released.

        elector = Elector(client, LeaseName("situate", "spot"), "pod-1_x7f", lead, wall_clock=clock, rng=rng)
        await elector.run()

    Give it a client whose rate limit other work cannot use up.
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
        observe: Callable[[ElectionNews], None] = lambda _: None,
    ) -> None:
        """`identity` must be of this process alone. `observe` must not block.

        When `lead` returns by itself the lease is released and `run` ends, unless it has given way; what it raises,
        `run` raises.
        """
        self.lease = lease
        self.identity = identity
        self.name = f"election {lease}"
        self.holder = ""
        """Who holds the lease as far as we know; empty if nobody does."""
        self.problem: str | None = None
        """Why the last attempt failed, in a sentence; None after one that did not."""
        self._client = client
        self._lead = lead
        self._wall_clock = wall_clock
        self._rng = rng
        self._times = times
        self._observe = observe
        self._record: Record | None = None
        self._seen_at = 0.0
        self._must_read = True  # the record may not be what the server has
        self._timed_out = False  # the last attempt
        self._attempts: dict[datetime, _Attempt] = {}
        self._last_time: datetime | None = None
        self._leadership: Leadership | None = None
        self._stopping = asyncio.Event()
        self._woken = asyncio.Event()
        self._giving_way = asyncio.Event()
        self._stands_aside_s = 0.0
        self._log = structlog.get_logger().bind(lease=str(lease), identity=identity)

    def leading(self) -> bool:
        """Whether this process leads at this moment."""
        return self._leadership is not None and self._leadership.valid_now()

    def stop(self) -> None:
        """Ends the term, if any, and `run`; the lease is released."""
        self._stopping.set()
        self._woken.set()

    def give_way(self, stands_aside_s: float) -> None:
        """Ends the term, if any, and releases the lease for somebody else; after that long it stands again itself.

        Nothing to a candidate.
        """
        if self._leadership is not None:
            self._stands_aside_s = stands_aside_s
            self._giving_way.set()

    def wake(self) -> None:
        """The lease may be free by now: a candidate looks at once, not after its pause. Nothing to a leader."""
        self._woken.set()

    async def run(self) -> None:
        """Stands for election again and again. Raises only what `lead` raises."""
        try:
            while not self._stopping.is_set():
                await self._try()
                if self._leadership is not None:
                    await self._serve(self._leadership)
                    if self._giving_way.is_set():
                        await self._stand_aside()
                else:
                    await self._pause(self._candidates_pause_s())
        finally:
            await self._release()

    def _candidates_pause_s(self) -> float:
        """As client-go's, and no longer than the lease lasts by what was seen of it: whoever waits has waited enough.

        Candidates whose clocks agree do not all come at the same instant.
        """
        usual = self._times.retry_s * (1 + JITTER * self._rng.random())
        if self._record is None:
            return usual
        left = free_at(self._record, self._seen_at, self._times) - _now()
        return min(usual, left + self._times.retry_s * _APART * self._rng.random()) if left > 0 else usual

    async def _pause(self, seconds: float) -> None:
        """Less when woken or asked to stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
        if not self._stopping.is_set():
            self._woken.clear()

    async def _stand_aside(self) -> None:
        """Without the lease: whoever wakes candidates does not wake this one."""
        self._giving_way.clear()
        await self._release()
        try:
            async with asyncio.timeout(self._stands_aside_s):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def _serve(self, leadership: Leadership) -> None:
        """One term: `lead` beside the renewals, which go on until `lead` has really ended."""
        lead = asyncio.ensure_future(self._lead(leadership))
        renewals = asyncio.ensure_future(self._renew(leadership))
        stopping = asyncio.ensure_future(self._stopping.wait())
        giving_way = asyncio.ensure_future(self._giving_way.wait())
        by_itself = False
        try:
            await asyncio.wait((lead, renewals, stopping, giving_way), return_when=asyncio.FIRST_COMPLETED)
            by_itself = lead.done() and not self._giving_way.is_set()
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
        """Returns when the term is lost; it is over at that moment."""
        while True:
            # An attempt that timed out has waited already; whether it landed must be known before the deadline.
            pause_s = 0.0 if self._timed_out else self._times.retry_s
            await asyncio.sleep(min(pause_s, leadership.remaining_s()))
            if leadership.valid_now():
                await self._try(leadership)
            if not leadership.valid_now():
                reason = f"it was not renewed within {self._times.renew_deadline_s:g} s: {self.problem or 'paused'}"
            elif self._must_read or (self._record is not None and self._is_ours(self._record)):
                continue
            else:
                reason = f"{self.holder} holds it" if self._record else "the Lease was deleted"
            leadership.end()
            self._log.warning("leadership is lost", reason=reason)
            self._observe(ElectionNews(ElectionChange.LOST, self.lease, reason))
            return

    async def _try(self, leadership: Leadership | None = None) -> None:
        """One attempt to take the lease, or to renew it; what goes wrong is told and kept as `problem`."""
        limit_s = self._times.renew_deadline_s / 2  # a hanging request leaves time for another one
        if leadership is not None:
            left_s = leadership.remaining_s()
            limit_s = min(limit_s, max(left_s / 2, min(left_s, 1.0)))
        self._timed_out = False
        try:
            async with asyncio.timeout(limit_s):
                for _ in range(1 if leadership is None else _TOUCHES):
                    if self._must_read or leadership is None:
                        await self._read()
                    content = self._to_write(leadership)
                    if content is None or await self._write(content, leadership):
                        break
        except TimeoutError:
            self._timed_out = True
            self._failed(f"no answer within {limit_s:.3g} s")
        except KubeError as problem:
            self._failed(str(problem))
        else:
            self.problem = None

    def _failed(self, problem: str) -> None:
        if problem != self.problem:
            self._log.warning("an attempt at the lease failed", error=problem)
        self.problem = problem
        self._observe(ElectionNews(ElectionChange.FAILED, self.lease, problem))

    async def _read(self) -> None:
        """Looks at the lease; finds out whether a write of ours landed whose answer was lost."""
        try:
            lease = await self._client.get(LEASES, self.lease.name, self.lease.namespace)
        except NotFound:
            self._saw(None)
            return
        record = Record.from_lease(lease)
        self._saw(record)
        if self._leadership is not None and self._is_ours(record) and record.renewed is not None:
            self._extend(self._leadership, self._attempts[record.renewed])

    def _saw(self, record: Record | None) -> None:
        """The server's answer about the lease."""
        known = self._record
        if record is None or known is None or not record.same_claim(known):
            self._seen_at = _now()
        self._record = record
        self._must_read = False
        holder = record.holder if record is not None else ""
        if holder != self.holder:
            self.holder = holder
            self._log.info("the lease changes hands", holder=holder)

    def _to_write(self, leadership: Leadership | None) -> dict[str, Any] | None:
        """The lease's next content; None when there is nothing for us to write now."""
        record = self._record
        if leadership is not None:
            # Taken by somebody else or deleted: no renewal brings this term back.
            ours = record is not None and self._is_ours(record)
            return renewed(record, self._next_time(), self._times) if record is not None and ours else None
        if record is None or self._is_ours(record) or _now() >= free_at(record, self._seen_at, self._times):
            return taken(record, self.identity, self._next_time(), self._times)
        return None

    def _is_ours(self, record: Record) -> bool:
        """Whether the record is a write of this process; the name alone proves nothing."""
        return record.holder == self.identity and record.renewed in self._attempts

    async def _write(self, content: dict[str, Any], leadership: Leadership | None) -> bool:
        """False: somebody was quicker, and the lease is to be read again. Raises what else the client raises."""
        assert self._last_time is not None
        attempt = self._attempts[self._last_time]
        record = await self._answer(content)
        if record is None:
            return False
        self._saw(record)
        if leadership is None:
            leadership = Leadership(record.transitions, asyncio.get_running_loop().time, self._wall_clock)
            self._leadership = leadership
            self._extend(leadership, attempt)
            self._log.info("leadership is won", term=record.transitions)
            self._observe(ElectionNews(ElectionChange.ACQUIRED, self.lease))
        else:
            self._extend(leadership, attempt)
            self._observe(ElectionNews(ElectionChange.RENEWED, self.lease))
        return True

    async def _answer(self, content: dict[str, Any]) -> Record | None:
        """The record after our write; None when it was refused because the lease had changed or gone."""
        name, namespace = self.lease.name, self.lease.namespace
        self._must_read = True  # until the answer is here
        try:
            if self._record is None:
                content = content | {"metadata": {"name": name, "namespace": namespace}}
                return Record.from_lease(await self._client.create(LEASES, content, namespace))
            return Record.from_lease(await self._client.patch(LEASES, name, MergePatch(content), namespace))
        except (AlreadyExists, Conflict, NotFound):
            return None

    def _extend(self, leadership: Leadership, attempt: _Attempt) -> None:
        leadership.extend(attempt.began, attempt.wall, self._times.renew_deadline_s)

    def _next_time(self) -> datetime:
        """A renewTime of its own for each write, so that the write is known again when it is read back."""
        now = self._wall_clock()
        if self._last_time is not None:
            now = max(now, self._last_time + timedelta(microseconds=1))
        self._attempts[now] = _Attempt(_now(), self._wall_clock())
        self._last_time = now
        while len(self._attempts) > _REMEMBERED:
            del self._attempts[next(iter(self._attempts))]
        return now

    async def _release(self) -> None:
        """Lets the next candidate take over at once. If that fails, it has to wait for the lease's duration."""
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
                    content = MergePatch(released(record, self._next_time()))
                    try:
                        await self._client.patch(LEASES, self.lease.name, content, self.lease.namespace)
                        break
                    except Conflict:
                        self._must_read = True  # somebody has touched a label; it is still ours to give back
        except (TimeoutError, KubeError) as problem:
            self._log.warning("the lease could not be released", error=str(problem) or "no answer")
            return
        self.holder = ""
        self._log.info("the lease is released")
        self._observe(ElectionNews(ElectionChange.RELEASED, self.lease))


def _now() -> float:
    return asyncio.get_running_loop().time()
