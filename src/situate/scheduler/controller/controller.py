"""The scheduler as a service: it watches always, and decides and writes while it leads.

It runs on one event loop and uses the loop's time, so a simulated loop runs the same code.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any, Final, Protocol

import structlog

from situate.framework.engine.engine import Engine
from situate.kube.client import Client
from situate.kube.election.election import Candidacy, ElectionEvent, Elector, Leadership
from situate.kube.errors import KubeError
from situate.kube.watch.reflector import Reflector
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.reconcile.outcomes import Retriable
from situate.scheduler.config.setup import Setup
from situate.scheduler.controller.action_writer import ExtenderClient, TermContext
from situate.scheduler.controller.apply import LiveApplier
from situate.scheduler.controller.engine_feed import EngineFeed
from situate.scheduler.controller.informers import Informers
from situate.scheduler.controller.loop import DecisionLoop
from situate.scheduler.controller.notify import EventRecorder, Notifier
from situate.scheduler.controller.unreadable_objects import UnreadableObjects
from situate.scheduler.metrics.metrics import SchedulerMetrics
from situate.scheduler.metrics.plugin_timing import PluginTimes

_PROMOTION_RETRY_S: Final = 1.0
_UNLIMITED_TERM_S: Final = 3e9
"""A century: the term without an election."""


class NotLeading(Retriable):
    """A write that only the leader may make was stopped."""


class EmbeddedProduct(Protocol):
    """A product that is part of the scheduler: it sees each change before the engine does, and shares its term."""

    def begin(self, engine: Engine, stir: Callable[[], None]) -> None:
        """Start a term: everything is listed, and the engine is empty; `stir` makes it check for work."""
        ...

    async def serve(self, client: Client, actuator: Actuator) -> None:
        """Run until cancelled, in one term, with a client and an actuator that write only while this process leads."""
        ...

    def end(self) -> None:
        """End the term, whether or not it has begun."""
        ...


class SchedulerController:
    """A service: `run` until `stop` or cancellation, which releases the Lease."""

    def __init__(
        self,
        setup: Setup,
        client: Client,
        candidacy: Candidacy,
        *,
        record: EventRecorder,
        metrics: SchedulerMetrics,
        wall: Callable[[], datetime],
        rng: random.Random,
        extending: ExtenderClient,
        election_client: Client | None = None,
        observe_election: Callable[[ElectionEvent], None] = lambda _: None,
        stopwatch: Callable[[], float] = time.perf_counter,
        rebuilding: Callable[[], AbstractContextManager[None]] = nullcontext,
        name: str = "scheduler",
        informers: Informers | None = None,
        embedded_product: EmbeddedProduct | None = None,
    ) -> None:
        """Take the setup and the clients.

        `election_client` has a rate limit that other work cannot use up; None uses `client`. `rebuilding` is entered
        while many long-lived objects are created: see `situate.runtime.process.startup.collector_paused`. `informers`
        is set if `embedded_product` watches more than the scheduler does.
        """
        self.name = name
        self.setup = setup
        self.informers = informers or Informers.create(client, rng)
        self._embedded_product = embedded_product
        self.engine: Engine | None = None
        """None while this process does not lead."""
        self.metrics = metrics
        self.metrics.add_engine(lambda: self.engine)
        self._client = client.with_write_check(self._require_leadership)
        self._wall = wall
        self._rng = rng
        self._extender_client = extending
        self._stopwatch = stopwatch
        self._times = PluginTimes(metrics, stopwatch, rng)
        self._rebuilding = rebuilding
        self._leadership: Leadership | None = None
        self._actuator = Actuator(self._require_leadership)
        self.notifier = Notifier(metrics, record, setup.names[0], _loop_time)
        self.engine_feed = EngineFeed(self.informers.stores, self.notifier, _loop_time)
        self._stopping = asyncio.Event()
        self.elector: Elector | None = None
        """None if it leads without an election."""
        if setup.election is not None:
            self.elector = Elector(
                election_client or client,
                setup.election.lease(candidacy.namespace),
                candidacy.identity,
                self._lead,
                wall_clock=wall,
                rng=rng,
                times=setup.election.times or candidacy.times,
                observe=observe_election,
            )
        self._log = structlog.get_logger().bind(controller=self.name)

    async def run(self) -> None:
        """Watch, and compete for the Lease. Raises only on a defect of this program."""
        async with asyncio.TaskGroup() as group:
            watches = [group.create_task(each.run(), name=each.name) for each in self.informers.reflectors()]
            await group.create_task(self._lead_without_election() if self.elector is None else self.elector.run())
            for watch in watches:
                watch.cancel()

    def stop(self) -> None:
        """End `run` in order: calls in flight are answered or refused, and the Lease is released."""
        self._stopping.set()
        if self.elector is not None:
            self.elector.stop()

    def not_ready(self) -> str | None:
        """Return why it is not ready; a standby that has listed everything is ready."""
        return self.informers.not_ready()

    def reflectors(self) -> Iterator[Reflector[Any]]:
        return self.informers.reflectors()

    async def _lead_without_election(self) -> None:
        leadership = Leadership(0, _loop_time, self._wall)
        leadership.extend(_loop_time(), self._wall(), _UNLIMITED_TERM_S)
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

    async def _lead(self, leadership: Leadership) -> None:
        """Run one term. No decision is made before the engine has the state of fresh listings."""
        self._leadership = leadership
        try:
            with self._rebuilding():
                engine, loop, performer, unreadable = await self._rebuild()
            self.engine = engine
            self._log.info("scheduler state rebuilt", nodes=len(engine.cache.nodes), pods=len(engine.cache))
            async with asyncio.TaskGroup() as group:
                group.create_task(performer.run())
                group.create_task(loop.run(performer))
                group.create_task(unreadable.run())
                if self._embedded_product is not None:
                    group.create_task(self._embedded_product.serve(self._client, self._actuator))
        finally:
            self.engine = None
            self.engine_feed.end()
            if self._embedded_product is not None:
                self._embedded_product.end()
            await self._actuator.wait_answers()
            self._leadership = None

    async def _rebuild(self) -> tuple[Engine, DecisionLoop, LiveApplier, UnreadableObjects]:
        """Build an engine that has the state of fresh listings."""
        await self._relist_everything()
        profiles = [self._times.with_timed_plugins(profile) for profile in self.setup.profiles]
        engine = Engine(profiles, self.setup.queue, extenders=self.setup.extenders)
        loop = DecisionLoop(
            engine, self.engine_feed, self.metrics, self._extender_client, self._times, _loop_time, self._stopwatch
        )
        means = self._make_context(engine, loop.stir)
        performer = LiveApplier(means)
        unreadable = UnreadableObjects(means, performer.action_writer, (self.informers.pods, self.informers.nodes))
        if self._embedded_product is not None:
            self._embedded_product.begin(engine, loop.stir)
        self.engine_feed.begin(engine, loop.stir)
        return engine, loop, performer, unreadable

    async def _relist_everything(self) -> None:
        """List everything after this term began: the stores may lack the last leader's bindings.

        A first listing that ends now may lack them, too. It shows the cluster as of the start of the listing, which may
        be earlier than those bindings.
        """
        await self.informers.wait_synced()
        if self.elector is None:
            return  # no other process binds
        while True:
            try:
                await self.informers.relist()
                return
            except KubeError as problem:
                self._log.warning("listing failed, scheduler state not rebuilt yet", error=str(problem))
            await asyncio.sleep(_PROMOTION_RETRY_S)

    def _make_context(self, engine: Engine, stir: Callable[[], None]) -> TermContext:
        return TermContext(
            engine=engine,
            engine_feed=self.engine_feed,
            notifier=self.notifier,
            client=self._client,
            actuator=self._actuator,
            pods=self.informers.pods,
            patchable={each.scope.resource.plural: each for each in self.informers.reflectors()},
            extender_client=self._extender_client,
            times=self._times,
            in_flight=self.setup.calls_in_flight,
            stir=stir,
            clock=_loop_time,
            wall=self._wall,
            rng=self._rng,
        )

    def may_write(self) -> bool:
        """Whether this process leads at this moment."""
        return self._actuator.may_write()

    def _require_leadership(self) -> None:
        """Raise unless this process leads at this moment, by its own clock."""
        if self._leadership is None or not self._leadership.is_valid():
            raise NotLeading(f"{self.name} writes nothing: another process may be the leader", after_s=1.0)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
