"""The scheduler as a service: it watches always, and decides and writes while it leads.

It runs on one event loop and uses the loop's time, so a simulated loop runs the same code.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import structlog

from situate.framework.engine.engine import Engine
from situate.kube.client import Client
from situate.kube.election.election import Leadership
from situate.kube.events import RecordActionEvent
from situate.kube.watch.reflector import Reflector
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.leadership.leader import ControllerContext, Leader, Watch
from situate.scheduler.config.setup import Setup
from situate.scheduler.controller.action_writer import ExtenderClient, TermContext
from situate.scheduler.controller.apply import LiveApplier
from situate.scheduler.controller.engine_feed import EngineFeed
from situate.scheduler.controller.informers import Informers
from situate.scheduler.controller.loop import DecisionLoop
from situate.scheduler.controller.notify import Notifier
from situate.scheduler.controller.unreadable_objects import UnreadableObjects
from situate.scheduler.metrics.metrics import SchedulerMetrics
from situate.scheduler.metrics.plugin_timing import PluginTimes


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
        context: ControllerContext,
        *,
        record: RecordActionEvent,
        metrics: SchedulerMetrics,
        extending: ExtenderClient,
        stopwatch: Callable[[], float] = time.perf_counter,
        rebuilding: Callable[[], AbstractContextManager[None]] = nullcontext,
        name: str = "scheduler",
        informers: Informers | None = None,
        embedded_product: EmbeddedProduct | None = None,
    ) -> None:
        """Take the setup and the collaborators.

        `rebuilding` is entered while many long-lived objects are created: see
        `situate.runtime.process.startup.pause_collector`. `informers` is set if `embedded_product` watches more than
        the scheduler does.
        """
        self.name = name
        self.setup = setup
        self.informers = informers or Informers.create(context.client, context.rng)
        self._embedded_product = embedded_product
        self.engine: Engine | None = None
        """None while this process does not lead."""
        self.metrics = metrics
        self.metrics.add_engine(lambda: self.engine)
        self._extender_client = extending
        self._stopwatch = stopwatch
        self._times = PluginTimes(metrics, stopwatch, context.rng)
        self._rebuilding = rebuilding
        self.notifier = Notifier(metrics, record, setup.names[0], _loop_time)
        self.engine_feed = EngineFeed(self.informers.stores, self.notifier, _loop_time)
        election = setup.election
        lease = None if election is None else election.lease(context.candidacy.namespace)
        self.leader = Leader(name, context, lease, self._lead, None if election is None else election.times)
        self._log = structlog.get_logger().bind(controller=self.name)

    async def run(self, watches: Iterable[Watch] = (), *further: Coroutine[Any, Any, None]) -> None:
        """Watch, and compete for the Lease. Raises only on a defect of this program.

        `watches` and `further` run beside: those of `embedded_product`.
        """
        await self.leader.run((*self.informers.reflectors(), *watches), *further)

    def stop(self) -> None:
        """End `run` in order: calls in flight are answered or refused, and the Lease is released."""
        self.leader.stop()

    def not_ready(self) -> str | None:
        """Return why it is not ready; a standby that has listed everything is ready."""
        return self.informers.not_ready()

    def reflectors(self) -> Iterator[Reflector[Any]]:
        return self.informers.reflectors()

    async def _lead(self, _: Leadership) -> None:
        """Run one term. No decision is made before the engine has the state of fresh listings."""
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
                    group.create_task(self._embedded_product.serve(self.leader.client, self.leader.actuator))
        finally:
            self.engine = None
            self.engine_feed.end()
            if self._embedded_product is not None:
                self._embedded_product.end()

    async def _rebuild(self) -> tuple[Engine, DecisionLoop, LiveApplier, UnreadableObjects]:
        """Build an engine that has the state of fresh listings."""
        await self.leader.relist(self.informers)
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

    def _make_context(self, engine: Engine, stir: Callable[[], None]) -> TermContext:
        return TermContext(
            engine=engine,
            engine_feed=self.engine_feed,
            notifier=self.notifier,
            client=self.leader.client,
            actuator=self.leader.actuator,
            pods=self.informers.pods,
            patchable={each.scope.resource.plural: each for each in self.informers.reflectors()},
            extender_client=self._extender_client,
            times=self._times,
            in_flight=self.setup.calls_in_flight,
            stir=stir,
            clock=_loop_time,
            wall=self.leader.context.wall,
            rng=self.leader.context.rng,
        )


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
