"""Assign the objects of one partition to executors, and archive them: KSched's `Supervisor`, made safe.

This module wires the parts together: the watches, the election and the terms. `term` handles each object during one
term. `executor_watch` determines the executors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from situate.archive.protocol import Archiver
from situate.kube.client import Client
from situate.kube.election.election import Candidacy, Leadership
from situate.kube.events import EventRecorder, RecordEvent
from situate.kube.watch.store import Store
from situate.objects.kinds.leases import Lease
from situate.objects.kinds.unstructured import Unstructured
from situate.runtime.leadership.leader import ControllerContext, Leader
from situate.runtime.metrics import Metrics
from situate.runtime.process.manager import Manager
from situate.runtime.reconcile.outcomes import DONE, Result
from situate.sharding.executor.controller.environment import REAL_ENVIRONMENT, RuntimeEnvironment
from situate.sharding.executor.controller.executor import connect_default_cluster
from situate.sharding.executor.controller.objects import Request
from situate.sharding.model.field_paths import ObjectAdapter
from situate.sharding.model.object_view import LARGEST
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.sharding.strategies import Explanation, Placer, Strategy
from situate.sharding.supervisor.controller.act.figures import FigureCollector
from situate.sharding.supervisor.controller.act.metrics import Counts, Figures, ShardMetrics
from situate.sharding.supervisor.controller.act.status_report import StatusReporter
from situate.sharding.supervisor.controller.act.writer import Sender
from situate.sharding.supervisor.controller.observe.informers import Informers
from situate.sharding.supervisor.controller.observe.objects_watch import ObjectsWatch
from situate.sharding.supervisor.controller.observe.watches import SupervisorStores
from situate.sharding.supervisor.controller.term import SupervisorTerm
from situate.sharding.supervisor.controller.user_hooks import guard_rule, guard_weight
from situate.sharding.supervisor.report import SupervisorReport
from situate.sharding.supervisor.scope import Scope

COMPONENT: Final = "situate-supervisor"
"""Reporting component of Events."""


class Supervisor:
    """A service: `run` until `stop`. `setup` adds it to a manager.

    supervisor = Supervisor(FieldPaths(), MinScheduled(), scope=scope)
    supervisor.setup(manager)
    """

    def __init__(
        self,
        adapter: ObjectAdapter,
        strategy: Strategy,
        archiver: Archiver | None = None,
        config: SupervisorConfig = SupervisorConfig(),  # noqa: B008  # frozen
        *,
        scope: Scope,
        connect: Callable[[], Client] = connect_default_cluster,
        surroundings: RuntimeEnvironment = REAL_ENVIRONMENT,
        metrics: Metrics | None = None,
    ) -> None:
        """`connect` makes a client in the event loop of its caller: one for the work, one for the election.

        `metrics`: the registry of all metrics; None: no metrics. The strategy must not be shared with another
        supervisor. The supervisor does not close the archiver.
        """
        self._log = structlog.get_logger(controller=f"supervisor {scope.lease}")
        self.scope = scope if scope.weight_of is None else replace(scope, weight_of=guard_weight(scope.weight_of))
        self.config = replace(
            config,
            is_ready=guard_rule("is_ready", config.is_ready),
            archive_when=guard_rule("archive_when", config.archive_when),
        )
        self.name = f"supervisor {scope.lease}"
        self.term: SupervisorTerm | None = None
        """None while this process does not lead."""
        self.counts = Counts()
        self._stores = SupervisorStores(scope)
        self.store: Store[Unstructured] = self._stores.objects
        """All objects, also those of other partitions, with only the data that `TrimmedObjects` keeps."""
        self._adapter = adapter
        self._placer = Placer(strategy, scope.rules, self.scope.weight_of)
        self._archiver = archiver
        self._connect = connect
        self._environment = surroundings
        self._metrics = metrics
        self._started = asyncio.Event()
        self._stopping = False
        self._leader: Leader | None = None
        self._informers: Informers | None = None
        self._figure_collector: FigureCollector | None = None

    def setup(self, manager: Manager) -> None:
        """Add the supervisor to the manager; services added later start when executors and objects are listed."""
        manager.add(self, ready=self.wait_synced)

    async def wait_synced(self) -> None:
        """Wait until executors and objects are listed, whether or not this process leads."""
        await self._started.wait()
        assert self._informers is not None
        await self._informers.wait_synced()

    def not_ready(self) -> str | None:
        """Return, for readiness, why executors, objects or partitions are not known yet; None if they are."""
        return f"{self.name} has not started" if self._informers is None else self._informers.not_ready()

    def is_leader(self) -> bool:
        """Return whether this process leads now."""
        return self._leader is not None and self._leader.is_leading()

    def stop(self) -> None:
        """End `run`: it waits for the calls in progress and releases the Lease."""
        self._stopping = True
        if self._leader is not None:
            self._leader.stop()

    async def reconcile(self, request: Request) -> Result:
        """Decide on one object and carry out the decision; do nothing while this process does not lead."""
        return DONE if self.term is None else await self.term.reconcile(request)

    def dry_run(self, request: Request) -> Explanation | None:
        """Explain the executor that the object would get now; None also before the start. See `Standby.dry_run`."""
        return None if self._informers is None else self._informers.cache.dry_run(request)

    def figures(self) -> Figures | None:
        """Return the state now, for metrics; None before the first lists are complete."""
        knowing = self._informers
        if knowing is None or self._figure_collector is None or not knowing.synced:
            return None
        found = self._figure_collector.figures()
        if knowing.table is not None and knowing.table.tables.confirmed is not None:
            found = replace(found, table_version=knowing.table.tables.confirmed.version)
        if self.term is None or (archive := self.term.archive) is None:
            return found
        return replace(found, archiving=len(archive), archive_lag_s=archive.lag_s())

    async def run(self) -> None:
        """Watch, and take part in the election, until stopped. Raises only on a defect in situate."""
        client, elections = self._connect(), self._connect()
        scope, around, watches = self.scope, self._environment, self._stores
        knowing = self._informers = Informers(
            scope,
            self.config,
            self._adapter,
            self._placer,
            watches,
            self.counts,
            client,
            around.now,
            around.rng,
            lambda: self.term,
        )
        watches.own_lease.on_change(self._handle_lease_change)
        self._figure_collector = FigureCollector(knowing.cache, scope.sizing, around.now)
        self._started.set()
        recorder = EventRecorder(client, COMPONENT, scope.identity, wall_clock=around.wall, rng=around.rng)
        if knowing.table is not None:
            knowing.table.record = recorder.record
        if self._metrics is not None:
            self._metrics.add_events(recorder)
            for each in knowing.reflectors:
                self._metrics.add_reflector(each.reflector if isinstance(each, ObjectsWatch) else each)
            self._metrics.registry.register(ShardMetrics(self, str(scope.lease)))

        async def lead(leadership: Leadership) -> None:
            await knowing.wait_synced()
            await self._run_term(leadership, client, knowing, recorder.record)

        context = ControllerContext(
            client,
            Candidacy(scope.lease.namespace, scope.identity, scope.election),
            around.wall,
            around.rng,
            elections,
            self._metrics.observe_election if self._metrics is not None else lambda _: None,
        )
        leader = self._leader = Leader(self.name, context, scope.lease, lead)
        if self._stopping:
            leader.stop()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(recorder.run(), name=recorder.name)
                await leader.run((*knowing.reflectors, knowing.observer), knowing.sync())
                recorder.stop()
        finally:
            await client.close()
            await elections.close()

    async def _run_term(self, leadership: Leadership, client: Client, knowing: Informers, record: RecordEvent) -> None:
        """Run one term."""
        scope, table = self.scope, knowing.table
        number, known = self._term_number(leadership, knowing.highest_term()), knowing.index.views.get
        sender = Sender(client, scope, self._adapter, leadership, number, knowing.learn, known, self.counts)
        if table is not None:
            table.begin_term()
        term = self.term = SupervisorTerm(
            knowing.cache, sender, self._archiver, record, self._environment, knowing.relist, self._metrics
        )
        every_s = self.config.requeue_delay
        reporting = StatusReporter(
            sender,
            scope.lease,
            lambda: self._build_report(leadership, term),
            table,
            every_s,
            knowing.wait_objects_listed,
        )
        try:
            await term.run(reporting.run())
        finally:
            self.term = None

    def _term_number(self, leadership: Leadership, highest: int) -> int:
        """Return the term of the Lease.

        If the Lease was deleted, its terms start again. The term is then 1 above the highest term on objects.
        """
        if highest < leadership.term:
            return leadership.term
        self._log.warning(
            "objects have later terms than the Lease, which may have been deleted", lease=leadership.term, found=highest
        )
        return min(highest + 1, LARGEST)

    def _build_report(self, leadership: Leadership, term: SupervisorTerm) -> SupervisorReport:
        """Return the report, with the term of the Lease; the term written on objects may be higher."""
        found = self.figures()
        assert found is not None, "a process leads only after the first listings"
        queue_age_s, writes_per_s = term.pace()
        return SupervisorReport(
            leadership.term,
            sum(found.open.values()),
            found.unassigned,
            round(queue_age_s, 1),
            round(writes_per_s, 1),
            found.desired_executors,
            write_refused=self.counts.refusal,
        )

    def _handle_lease_change(self, _: Lease | None, __: Lease | None) -> None:
        """Wake the candidate at each change of the Lease, so that it takes over as early as possible."""
        if self._leader is not None and not self._leader.is_leading():
            self._leader.wake()
