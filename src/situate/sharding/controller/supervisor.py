"""Assigns the objects of one partition to executors, and archives them: KSched's `Supervisor`, made safe.

This is the wiring: what is watched, who leads, and when. What is done about each object in a term of leading is in
`supervising`; who is an executor, in `observing`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from situate.archive.protocol import Archiver
from situate.kube.client import Client
from situate.kube.election import Elector, Leadership
from situate.kube.events import EventRecorder
from situate.kube.store import Store
from situate.objects.coordination import Lease
from situate.objects.unstructured import Unstructured
from situate.runtime.manager import Manager
from situate.runtime.metrics import Metrics
from situate.runtime.outcomes import DONE, Result
from situate.sharding.adapter import ObjectAdapter
from situate.sharding.assignment import LARGEST, view_of
from situate.sharding.configuration import SupervisorConfig
from situate.sharding.controller.executor import connect_here
from situate.sharding.controller.figuring import Figuring
from situate.sharding.controller.listing import Listing
from situate.sharding.controller.objects import Request
from situate.sharding.controller.observing import MembersChanged, Observer
from situate.sharding.controller.reporting import Reporting
from situate.sharding.controller.sending import Sender
from situate.sharding.controller.standby import Standby
from situate.sharding.controller.supervising import Supervising
from situate.sharding.controller.supervisor_metrics import Counts, Figures, ShardMetrics
from situate.sharding.controller.surroundings import REAL, Surroundings
from situate.sharding.controller.table_watch import TableWatch
from situate.sharding.controller.users_rules import asking, weighing
from situate.sharding.controller.watches import Watches
from situate.sharding.leases import Membership
from situate.sharding.members import Members
from situate.sharding.owning import Owned, owned_by
from situate.sharding.partitions import Identified
from situate.sharding.scope import Scope
from situate.sharding.situation import Ownership
from situate.sharding.strategies import Explanation, Placer, Strategy
from situate.sharding.supervisor_reports import SupervisorReport
from situate.sharding.tables import Tables

COMPONENT: Final = "situate-supervisor"
"""What Events are from."""


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
        connect: Callable[[], Client] = connect_here,
        surroundings: Surroundings = REAL,
        metrics: Metrics | None = None,
    ) -> None:
        """`connect` makes a client in the event loop where it is called: one for the work, one for the election.

        `metrics`: where everything is counted, if anywhere. The strategy is this supervisor's alone from now on; the
        archiver is not closed.
        """
        self._log = structlog.get_logger().bind(controller=f"supervisor {scope.lease}")
        self.scope = scope if scope.weight_of is None else replace(scope, weight_of=weighing(scope.weight_of))
        self.config = replace(
            config,
            is_ready=asking("is_ready", config.is_ready),
            archive_when=asking("archive_when", config.archive_when),
        )
        self.name = f"supervisor {scope.lease}"
        self.term: Supervising | None = None
        """None while this process does not lead."""
        self.counts = Counts()
        self._watches = Watches(scope)
        self.store: Store[Unstructured] = self._watches.objects
        """All objects, also those of other partitions; of each what `KeptObjects` keeps."""
        self._adapter = adapter
        self._placer = Placer(strategy, scope.rules, self.scope.weight_of)
        self._archiver = archiver
        self._connect = connect
        self._around = surroundings
        self._metrics = metrics
        self._keyspace = scope.keyspace
        self._table: TableWatch | None = None
        if scope.partition_table:
            tables = Tables(int(scope.partition), scope.keyspace.by)
            self._keyspace = tables.keyspace()
            self._table = TableWatch(tables, scope.lease_namespace, scope.partition_table, self._repartitioned)
        self._synced = asyncio.Event()
        self._stopping = False
        self._elector: Elector | None = None
        self._standby: Standby | None = None
        self._figuring: Figuring | None = None
        self._problem: Callable[[], str | None] = lambda: f"{self.name} has not been started"

    def setup(self, manager: Manager) -> None:
        """Runs with the manager; what is added after it starts when executors and objects are known."""
        manager.add(self, ready=self.wait_synced)

    async def wait_synced(self) -> None:
        """Until executors and objects are known; whether or not it leads."""
        await self._synced.wait()

    def not_ready(self) -> str | None:
        """For readiness: why executors or objects are not known yet; None if they are."""
        return self._no_table() if self._synced.is_set() else self._problem()

    def leading(self) -> bool:
        """Whether this process leads at this moment."""
        return self._elector is not None and self._elector.leading()

    def stop(self) -> None:
        """Ends `run`: what is in flight is waited for, the Lease is released."""
        self._stopping = True
        if self._elector is not None:
            self._elector.stop()

    async def reconcile(self, request: Request) -> Result:
        """Decides on one object and does what was decided; nothing while this process does not lead."""
        return DONE if self.term is None else await self.term.reconcile(request)

    def dry_run(self, request: Request) -> Explanation | None:
        """Where the object would go now, and why not elsewhere; see `Standby.dry_run`. None before the start, too."""
        return None if self._standby is None else self._standby.dry_run(request)

    def figures(self) -> Figures | None:
        """For metrics: the state now; None before the first listings."""
        if self._figuring is None or not self._synced.is_set():
            return None
        found = self._figuring.figures()
        if self._table is not None and self._table.tables.confirmed is not None:
            found = replace(found, table_version=self._table.tables.confirmed.version)
        if self.term is None or (archive := self.term.archive) is None:
            return found
        return replace(found, archiving=len(archive), archive_lag_s=archive.lag_s())

    async def run(self) -> None:
        """Watches and stands for election. Raises what a defect of ours raises."""
        client, elections = self._connect(), self._connect()
        scope, around, watches = self.scope, self._around, self._watches
        membership = Membership(scope.executors, scope.times, scope.pool, scope.partition)
        listing = Listing(scope.weight_of, self._counted)
        observer = Observer(client, membership, lambda: listing.open, around.now, self._members_changed)
        self._standby = Standby(
            scope, self.config, self._adapter, self._placer, listing, observer, self._owned(), around.now, self.counts
        )
        self._figuring = Figuring(self._standby, scope.sizing, around.now)
        needed, others = watches.reflectors(client, around.rng)
        self._problem = lambda: next((problem for each in needed if (problem := each.not_ready())), None)
        self._listen(watches, observer)
        recorder = EventRecorder(client, COMPONENT, scope.identity, wall_clock=around.wall, rng=around.rng)
        if self._table is not None:
            self._table.record = recorder.record
        if self._metrics is not None:
            self._metrics.add_events(recorder)
            for each in (*needed, *others):
                self._metrics.add_reflector(each)
            self._metrics.registry.register(ShardMetrics(self, str(scope.lease)))

        async def relist() -> None:
            await asyncio.gather(*(each.relist() for each in needed))

        async def lead(leadership: Leadership) -> None:
            assert self._standby is not None
            await self._synced.wait()
            term, learn, known = self._term(leadership, listing), needed[0].learn, listing.views.get
            sender = Sender(client, scope, self._adapter, leadership, term, learn, known, self.counts)
            if self._table is not None:
                self._table.begin_term()
            self.term = Supervising(
                self._standby, sender, self._archiver, recorder.record, around, relist, self._metrics
            )
            reporting = Reporting(
                sender,
                scope.lease,
                lambda: self._report(leadership),
                self._table,
                self.config.requeue_delay,
            )
            try:
                await self.term.run(reporting.run())
            finally:
                self.term = None

        elector = self._elector = Elector(
            elections,
            scope.lease,
            scope.identity,
            lead,
            wall_clock=around.wall,
            rng=around.rng,
            times=scope.election,
            observe=self._metrics.observe_election if self._metrics is not None else lambda _: None,
        )
        if self._stopping:
            elector.stop()
        try:
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(each.run(), name=each.name) for each in (*needed, *others)]
                beside.append(group.create_task(observer.run(), name=observer.name))
                beside.append(group.create_task(self._sync(observer), name="first listings"))
                recording = group.create_task(recorder.run(), name=recorder.name)
                await group.create_task(elector.run(), name=elector.name)
                for task in beside:
                    task.cancel()
                recorder.stop()
                await recording
        finally:
            await client.close()
            await elections.close()

    def _term(self, leadership: Leadership, listing: Listing) -> int:
        """The Lease's; after what is written on objects where somebody has deleted the Lease and so begun anew."""
        highest = max((view.term for view in listing.views.values() if view.epoch), default=-1)
        if highest < leadership.term:
            return leadership.term
        self._log.warning(
            "objects bear later terms than the Lease: was it deleted?", lease=leadership.term, found=highest
        )
        return min(highest + 1, LARGEST)

    def _listen(self, watches: Watches, observer: Observer) -> None:
        if self._table is not None:
            watches.table.on_change(self._table.saw)
        watches.objects.on_change(self._object_changed)
        watches.leases.on_change(observer.saw_lease)
        watches.pods.on_change(observer.saw_pod)
        watches.nodes.on_change(observer.saw_node)
        watches.own_lease.on_change(self._lease_changed)

    async def _sync(self, observer: Observer) -> None:
        await self._watches.leases.wait_synced()
        await self._watches.pods.wait_synced()
        observer.synced()
        await self.store.wait_synced()
        if self._table is not None:
            await self._watches.table.wait_synced()
            if not len(self._watches.table):
                self._table.saw(None, None)
        observer.members()
        self._synced.set()
        self._log.info("executors and objects are known", pods=len(self._watches.pods), objects=len(self.store))

    def _object_changed(self, old: Unstructured | None, new: Unstructured | None) -> None:
        seen = new or old
        assert seen is not None
        assert self._standby is not None
        request = Request(seen.metadata.namespace, seen.metadata.name)
        view = None
        if new is not None and (self._keyspace.whole or self._keyspace.holds(new.metadata)):
            view = view_of(new.content, self._adapter, new.raw)
        before = self._standby.saw(request, view)
        if self.term is not None and (before is not None or view is not None):
            self.term.changed(request, before, view)

    def _owned(self) -> Owned:
        if self._table is not None:
            return self._table.tables.owned()
        return _all_ours if self._keyspace.whole else owned_by(self._keyspace)

    def _repartitioned(self, tables: Tables) -> None:
        """Another version of the table was read, or confirmed."""
        keyspace, self._keyspace = self._keyspace, tables.keyspace()
        if self._standby is None:
            return
        self._standby.owned = self._owned()
        if keyspace != self._keyspace:
            for each in self.store.list():
                self._object_changed(each, each)
        if self.term is not None:
            self.term.look_at_all()

    def _no_table(self) -> str | None:
        return None if self._table is None else self._table.not_ready()

    def _report(self, leadership: Leadership) -> SupervisorReport:
        """As of the term that the Lease counts, which what is written on objects may be ahead of."""
        found = self.figures()
        assert found is not None, "nobody leads before the first listings"
        assert self.term is not None, "who reports leads"
        queue_age_s, writes_per_s = self.term.pace()
        return SupervisorReport(
            leadership.term,
            sum(found.open.values()),
            found.unassigned,
            round(queue_age_s, 1),
            round(writes_per_s, 1),
            found.desired_executors,
        )

    def _members_changed(self, before: Members, after: Members, change: MembersChanged | None) -> None:
        assert self._standby is not None
        self._standby.members_changed(before, after)
        if self.term is not None and change is not None:
            self.term.members_changed(before, after, change)

    def _counted(self, uid: str, before: int, after: int) -> None:
        if self._standby is not None:
            self._standby.observer.counted(uid, before, after)

    def _lease_changed(self, _: Lease | None, __: Lease | None) -> None:
        """A candidate that sees each renewal when it comes waits for its end no longer than it has to."""
        if self._elector is not None and not self._elector.leading():
            self._elector.wake()


def _all_ours(_: Identified) -> Ownership:
    """Without partitions nothing need be hashed."""
    return Ownership.OURS
