"""Assigns the objects of one partition to executors, and archives them: KSched's `Supervisor`, made safe.

This is the wiring: what is watched, who leads, and when. What is done about each object in a term of leading is in
`supervising`; who is an executor, in `observing`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import structlog

from situate.archive.protocol import Archiver
from situate.kube.client import Client
from situate.kube.election import Elector, Leadership
from situate.kube.events import EventRecorder
from situate.kube.reflector import Reflector
from situate.kube.store import Store
from situate.objects.coordination import Lease
from situate.objects.nodes import Node
from situate.objects.pods import Pod
from situate.objects.resources import LEASES, NODES, PODS
from situate.objects.unstructured import Unstructured
from situate.runtime.manager import Manager
from situate.runtime.metrics import Metrics
from situate.runtime.outcomes import DONE, Result
from situate.sharding.adapter import ObjectAdapter
from situate.sharding.assignment import LARGEST, ObjectView, view_of
from situate.sharding.configuration import SupervisorConfig
from situate.sharding.controller.executor import connect_here
from situate.sharding.controller.kept import KeptObjects
from situate.sharding.controller.listing import NOBODYS, Listing
from situate.sharding.controller.objects import Request
from situate.sharding.controller.observing import MembersChanged, Observer
from situate.sharding.controller.sending import Sender
from situate.sharding.controller.standby import Standby
from situate.sharding.controller.supervising import Supervising
from situate.sharding.controller.supervisor_metrics import Counts, Figures, ShardMetrics
from situate.sharding.controller.surroundings import REAL, Surroundings
from situate.sharding.leases import Membership
from situate.sharding.members import Members
from situate.sharding.names import POOL
from situate.sharding.owning import owned_by
from situate.sharding.partitions import Identified
from situate.sharding.scope import Scope
from situate.sharding.situation import Ownership
from situate.sharding.sizing import SizingState, desired_executors
from situate.sharding.strategies import Placer, Strategy

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
        self.scope = scope if scope.weight_of is None else replace(scope, weight_of=self._weighing(scope.weight_of))
        self.config = config
        self.name = f"supervisor {scope.lease}"
        self.store: Store[Unstructured] = KeptObjects(scope.resource.group_resource)
        """All objects, also those of other partitions."""
        self.term: Supervising | None = None
        """None while this process does not lead."""
        self._adapter = adapter
        self._placer = Placer(strategy, scope.rules, self.scope.weight_of)
        self._archiver = archiver
        self._connect = connect
        self._around = surroundings
        self.counts = Counts()
        self._metrics = metrics
        self._sizing = SizingState()
        self._leases: Store[Lease] = Store("leases of executors")
        self._pods: Store[Pod] = Store("pods of executors")
        self._nodes: Store[Node] = Store("nodes")
        self._own_lease: Store[Lease] = Store("lease of supervisors")
        self._synced = asyncio.Event()
        self._stopping = False
        self._elector: Elector | None = None
        self._standby: Standby | None = None
        self._problem: Callable[[], str | None] = lambda: f"{self.name} has not been started"

    def setup(self, manager: Manager) -> None:
        """Runs with the manager; what is added after it starts when executors and objects are known."""
        manager.add(self, ready=self.wait_synced)

    async def wait_synced(self) -> None:
        """Until executors and objects are known; whether or not it leads."""
        await self._synced.wait()

    def not_ready(self) -> str | None:
        """For readiness: why executors or objects are not known yet; None if they are."""
        return None if self._synced.is_set() else self._problem()

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

    def figures(self) -> Figures | None:
        """For metrics: the state now; None before the first listings."""
        standby, now = self._standby, self._around.now()
        if standby is None or not self._synced.is_set():
            return None
        members, listing = standby.observer.members(), standby.listing
        unassigned = len(listing.held_by(NOBODYS))
        removed_at = standby.observer.removed_at
        orphaned = [now - at for uid, at in removed_at.items() if listing.held_by(uid)]
        desired = None
        if self.scope.sizing is not None:
            wanted = desired_executors(self._sizing, self.scope.sizing, sum(listing.open.values()) + unassigned, now)
            desired, self._sizing = wanted.desired, wanted.state
        archive = None if self.term is None else self.term.archive
        return Figures(
            members,
            now,
            dict(listing.open),
            unassigned,
            max(orphaned, default=0.0),
            0 if archive is None else len(archive),
            0.0 if archive is None else archive.lag_s(),
            desired,
        )

    async def run(self) -> None:
        """Watches and stands for election. Raises what a defect of ours raises."""
        client, elections = self._connect(), self._connect()
        scope, around = self.scope, self._around
        membership = Membership(scope.executors, scope.times, scope.pool, scope.partition)
        listing = Listing(scope.weight_of, self._counted, ranked=self.config.keep_last_per_owner is not None)
        observer = Observer(client, membership, lambda: listing.open, around.now, self._members_changed)
        self._standby = Standby(
            scope,
            self.config,
            self._adapter,
            self._placer,
            listing,
            observer,
            owned_by(scope.keyspace) if not scope.keyspace.whole else _all_ours,
            around.now,
            self.counts,
        )
        reflectors = [*self._watching(client, observer)]
        needed = reflectors[:3]
        objects = needed[0]
        self._problem = lambda: next((each.not_ready() for each in needed if each.not_ready()), None)
        recorder = EventRecorder(client, COMPONENT, scope.identity, wall_clock=around.wall, rng=around.rng)

        if self._metrics is not None:
            self._metrics.add_events(recorder)
            for each in reflectors:
                self._metrics.add_reflector(each)
            self._metrics.registry.register(ShardMetrics(self, str(scope.lease)))

        async def relist() -> None:
            await asyncio.gather(*(each.relist() for each in needed))

        async def lead(leadership: Leadership) -> None:
            assert self._standby is not None
            await self._synced.wait()
            sender = Sender(
                client,
                scope,
                self._adapter,
                leadership,
                self._term(leadership, listing),
                objects.learn,
                listing.views.get,
            )
            self.term = Supervising(
                self._standby, sender, self._archiver, recorder.record, around, relist, self._metrics
            )
            try:
                await self.term.run()
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
                beside = [group.create_task(each.run(), name=each.name) for each in reflectors]
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

    def _watching(self, client: Client, observer: Observer) -> Iterator[Reflector[Any]]:
        """Objects, Leases and pods come first."""
        scope, rng = self.scope, self._around.rng
        self.store.on_change(self._object_changed)
        self._leases.on_change(observer.saw_lease)
        self._pods.on_change(observer.saw_pod)
        self._nodes.on_change(observer.saw_node)
        self._own_lease.on_change(self._lease_changed)

        where = scope.executors.namespace
        yield Reflector(client, scope.resource, self.store, rng=rng, namespace=scope.namespace)
        pool = f"{POOL}={scope.pool}"
        yield Reflector(client, LEASES, self._leases, rng=rng, namespace=where, label_selector=pool)
        selector = scope.executors.selector
        yield Reflector(client, PODS, self._pods, rng=rng, namespace=where, label_selector=selector)
        yield Reflector(client, NODES, self._nodes, rng=rng)
        named = f"metadata.name={scope.lease.name}"
        yield Reflector(client, LEASES, self._own_lease, rng=rng, namespace=scope.lease.namespace, field_selector=named)

    async def _sync(self, observer: Observer) -> None:
        await self._leases.wait_synced()
        await self._pods.wait_synced()
        observer.synced()
        await self.store.wait_synced()
        observer.members()
        self._synced.set()
        self._log.info("executors and objects are known", pods=len(self._pods), objects=len(self.store))

    def _object_changed(self, old: Unstructured | None, new: Unstructured | None) -> None:
        seen = new or old
        assert seen is not None
        assert self._standby is not None
        request = Request(seen.metadata.namespace, seen.metadata.name)
        view = view_of(new.content, self._adapter, new.raw) if new is not None else None
        keyspace = self.scope.keyspace
        if view is not None and not keyspace.whole and not keyspace.holds(view):
            view = None  # another partition's
        before = self._standby.saw(request, view)
        if self.term is not None and (before is not None or view is not None):
            self.term.changed(request, before, view)

    def _members_changed(self, before: Members, after: Members, change: MembersChanged | None) -> None:
        assert self._standby is not None
        self._standby.members_changed(before, after)
        if self.term is not None and change is not None:
            self.term.members_changed(before, after, change)

    def _weighing(self, weight_of: Callable[[ObjectView], int]) -> Callable[[ObjectView], int]:
        """As the user's, but for what it cannot weigh."""

        def weigh(view: ObjectView) -> int:
            try:
                return max(1, int(weight_of(view)))
            except Exception as problem:  # a user's code may raise anything, and must not stop other objects
                self._log.error(
                    "an object cannot be weighed, so it counts 1",
                    key=f"{view.namespace}/{view.name}",
                    error=repr(problem),
                )
                return 1

        return weigh

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
