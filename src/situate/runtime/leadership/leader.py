"""The leader skeleton of every product: its election, its terms, and the permission to write.

A product passes the work of one term as a function. The function first calls `relist`, because the stores may lack the
last leader's writes. `client` and `actuator` refuse a write unless this process leads at that moment. A term ends only
after the answers to its writes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

import structlog

from situate.kube.client import Client
from situate.kube.election.election import Candidacy, ElectionEvent, Elector, Lead, Leadership
from situate.kube.election.lease_record import ElectionTimes, LeaseName
from situate.kube.errors import KubeError
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.reconcile.outcomes import Retriable

_LIST_RETRY_S: Final = 1.0
"""Delay after a failed list at the start of a term."""
_UNLIMITED_TERM_S: Final = 3e9
"""A century: the term without an election."""


class NotLeading(Retriable):
    """A write that only the leader may send was not sent, because another process may lead."""

    def __init__(self, name: str) -> None:
        """`name`: the controller that tried to write."""
        super().__init__(f"{name}: another process may lead now, so nothing is written", after_s=1.0)


def require_leadership(name: str, leadership: Leadership | None) -> None:
    """Raise `NotLeading` unless this term is valid now. None: no term has begun."""
    if leadership is None or not leadership.is_valid():
        raise NotLeading(name)


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """The clients, identity, clock and randomness of one controller."""

    client: Client
    candidacy: Candidacy
    wall: Callable[[], datetime]
    rng: random.Random
    election_client: Client | None = None
    """A client whose rate limit other work cannot use up; None: `client`."""
    observe_election: Callable[[ElectionEvent], None] = lambda _: None


class Watch(Protocol):
    """A watch or another part that runs whether or not this process leads."""

    @property
    def name(self) -> str: ...

    async def run(self) -> None: ...


class WatchedStores(Protocol):
    """The stores that the watches of a product fill."""

    async def wait_synced(self) -> None:
        """Wait until everything has been listed once."""
        ...

    async def relist(self) -> None:
        """Compare the stores with fresh lists. Raises the client's errors."""
        ...


class Leader:
    """The leadership of one controller: `run` until `stop` or cancellation, which releases the Lease."""

    def __init__(
        self,
        name: str,
        context: ControllerContext,
        lease: LeaseName | None,
        lead: Lead,
        times: ElectionTimes | None = None,
    ) -> None:
        """Take the work of one term.

        `lead` runs when a term begins, and is cancelled when the term ends. `lease` None: it leads without an election.
        `times` None: those of the candidacy.
        """
        self.name = name
        self.context = context
        self.lease = lease
        self.leadership: Leadership | None = None
        """The current term; None while this process does not lead."""
        self.actuator = Actuator(self.check)
        self.client = context.client.with_write_check(self.check)
        """A client whose writes leave only while this process leads."""
        self.election_client = context.election_client or context.client
        self.times = times or context.candidacy.times
        self._run_term = lead
        self._stopping = asyncio.Event()
        self._elector: Elector | None = None
        if lease is not None:
            self._elector = Elector(
                self.election_client,
                lease,
                context.candidacy.identity,
                self._lead,
                wall_clock=context.wall,
                rng=context.rng,
                times=self.times,
                observe=context.observe_election,
            )
        self._log = structlog.get_logger().bind(controller=name)

    def is_leading(self) -> bool:
        """Return whether this process leads at this moment, by its own clock."""
        return self.leadership is not None and self.leadership.is_valid()

    def check(self) -> None:
        """Raise `NotLeading` unless this process leads at this moment."""
        require_leadership(self.name, self.leadership)

    async def run(self, watches: Iterable[Watch], *further: Coroutine[Any, Any, None]) -> None:
        """Run the watches and the coroutines, and take part in the election. Raises internal errors."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each.run(), name=each.name) for each in watches]
            tasks += [group.create_task(each) for each in further]
            election = self._lead_without_election() if self._elector is None else self._elector.run()
            await group.create_task(election, name=f"election of {self.name}")
            for task in tasks:
                task.cancel()

    def stop(self) -> None:
        """End `run` in order: calls in flight are answered or refused, and the Lease is released."""
        self._stopping.set()
        if self._elector is not None:
            self._elector.stop()

    def wake(self) -> None:
        """Try to acquire the Lease at once, because it may be free. No effect on a leader."""
        if self._elector is not None:
            self._elector.wake()

    def step_down(self, retry_periods: int) -> None:
        """Release the Lease, and do not compete for it for this number of retry periods. No effect on a candidate."""
        if self._elector is not None:
            self._elector.step_down(retry_periods * self.times.retry_s)

    async def relist(self, informers: WatchedStores, *further: Callable[[], Awaitable[object]]) -> None:
        """List everything after this term began, until that succeeds: the stores may lack the last leader's writes.

        A first list that ends now may lack them, too. It shows the cluster as of the start of the list, which may be
        earlier than those writes. `further` are reads with the same purpose.
        """
        await informers.wait_synced()
        if self._elector is None:
            return  # no other process writes
        while True:
            try:
                await informers.relist()
                for read in further:
                    await read()
                return
            except KubeError as problem:
                self._log.warning("initial list failed, retrying", error=str(problem))
            await asyncio.sleep(_LIST_RETRY_S)

    async def _lead(self, leadership: Leadership) -> None:
        self.leadership = leadership
        try:
            await self._run_term(leadership)
        finally:
            await self.actuator.wait_answers()
            self.leadership = None

    async def _lead_without_election(self) -> None:
        now = asyncio.get_running_loop().time
        leadership = Leadership(0, now, self.context.wall)
        leadership.extend(now(), self.context.wall(), _UNLIMITED_TERM_S)
        lead = asyncio.ensure_future(self._lead(leadership))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((lead, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            lead.cancel()
            await asyncio.wait([lead])
        if not lead.cancelled():
            lead.result()
