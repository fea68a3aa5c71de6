"""Maintain the view of objects, executors and partitions in one process, and notify the current term of changes.

The view is maintained whether or not this process leads. `Standby` holds the view, and `Supervising` uses it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import structlog

from situate.kube.client import Client
from situate.objects.kinds.unstructured import Unstructured
from situate.sharding.executor.controller.objects import Request
from situate.sharding.leases.membership import Membership
from situate.sharding.model.decision_inputs import Ownership
from situate.sharding.model.executors import Members
from situate.sharding.model.field_paths import ObjectAdapter
from situate.sharding.model.object_view import view_of
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.sharding.partitions.ownership import Owned, owned_by
from situate.sharding.partitions.partitions import Identified, Keyspace
from situate.sharding.partitions.slot_tables import Tables
from situate.sharding.strategies import Placer
from situate.sharding.supervisor.controller.act.metrics import Counts
from situate.sharding.supervisor.controller.observe.cache import Standby
from situate.sharding.supervisor.controller.observe.executor_watch import MembersChanged, Observer
from situate.sharding.supervisor.controller.observe.object_index import Listing
from situate.sharding.supervisor.controller.observe.objects_watch import ObjectsWatch
from situate.sharding.supervisor.controller.observe.table_watch import TableWatch
from situate.sharding.supervisor.controller.observe.watches import Watches
from situate.sharding.supervisor.controller.term import Supervising
from situate.sharding.supervisor.scope import Scope


class Knowing:
    """The watches and views of one process, from its start to its end."""

    def __init__(
        self,
        scope: Scope,
        config: SupervisorConfig,
        adapter: ObjectAdapter,
        placer: Placer,
        watches: Watches,
        counts: Counts,
        client: Client,
        now: Callable[[], float],
        rng: random.Random,
        term: Callable[[], Supervising | None],
    ) -> None:
        """`term` returns the term to notify of changes; None while this process does not lead."""
        self._adapter = adapter
        self._watches = watches
        self._term = term
        self._keyspace = scope.keyspace
        self.table: TableWatch | None = None
        """None with static partitions."""
        if scope.partition_table:
            tables = Tables(int(scope.partition), scope.keyspace.by)
            self._keyspace = tables.keyspace()
            self.table = TableWatch(tables, scope.lease_namespace, scope.partition_table, self._repartitioned)
        membership = Membership(scope.executors, scope.times, scope.pool, scope.partition)
        ranked = config.keep_last_per_owner is not None
        self.listing = Listing(scope.weight_of, self._counted, ranked)
        self.observer = Observer(client, membership, lambda: self.listing.open, now, self._members_changed)
        self.standby = Standby(scope, config, adapter, placer, self.listing, self.observer, self._owned(), now, counts)
        self._synced = asyncio.Event()
        self._kept: Keyspace | None = None
        self.needed, others = watches.reflectors(client, rng)
        """The reflectors that every decision needs; that of the objects is the first."""
        self.reflectors = (*self.needed, *others)
        self._listen()
        self._log = structlog.get_logger()

    @property
    def synced(self) -> bool:
        """Return whether executors, objects and the partition table have been listed."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def not_ready(self) -> str | None:
        """Return why the view is not complete yet; None if it is complete."""
        if not self.synced:
            return next(
                (problem for each in self.needed if (problem := each.not_ready())), "the first lists are not complete"
            )
        return None if self.table is None else self.table.not_ready()

    async def relist(self) -> None:
        """Compare the stores with fresh lists. Raises the client's errors."""
        await asyncio.gather(*(each.relist() for each in self.needed))

    async def known(self) -> None:
        """Wait until all objects that the newest table gives us, now or next, have been listed."""
        if isinstance(objects := self.needed[0], ObjectsWatch):
            await objects.listed()

    def learn(self, found: Unstructured) -> None:
        """Store an object from an answer of the API server."""
        self.needed[0].learn(found)

    def highest_term(self) -> int:
        """Return the highest term written on objects; -1 if no object has one."""
        return max((view.term for view in self.listing.views.values() if view.epoch), default=-1)

    async def sync(self) -> None:
        """Wait until everything has been listed, and then mark the view as complete."""
        watches, observer = self._watches, self.observer
        await watches.leases.wait_synced()
        await watches.pods.wait_synced()
        observer.synced()
        if self.table is not None:
            await watches.table.wait_synced()
            if not len(watches.table):
                self.table.saw(None, None)
            self._keep(self.table.tables)
        await watches.objects.wait_synced()
        observer.members()
        self._synced.set()
        self._log.info("executors and objects listed", pods=len(watches.pods), objects=len(watches.objects))

    def _listen(self) -> None:
        watches, observer = self._watches, self.observer
        if self.table is not None:
            watches.table.on_change(self.table.saw)
        watches.objects.on_change(self._object_changed)
        watches.leases.on_change(observer.saw_lease)
        watches.pods.on_change(observer.saw_pod)
        watches.nodes.on_change(observer.saw_node)

    def _object_changed(self, old: Unstructured | None, new: Unstructured | None) -> None:
        seen = new or old
        assert seen is not None
        request = Request(seen.metadata.namespace, seen.metadata.name)
        view = None
        if new is not None and (self._keyspace.whole or self._keyspace.holds(new.metadata)):
            view = view_of(new.content, self._adapter, new.raw)
        before = self.standby.saw(request, view)
        if (term := self._term()) is not None and (before is not None or view is not None):
            term.changed(request, before, view)

    def _members_changed(self, before: Members, after: Members, change: MembersChanged | None) -> None:
        self.standby.members_changed(before, after)
        if (term := self._term()) is not None and change is not None:
            term.looking.members_changed(before, after, change)

    def _counted(self, uid: str, before: int, after: int) -> None:
        self.observer.counted(uid, before, after)

    def _owned(self) -> Owned:
        if self.table is not None:
            return self.table.tables.owned()
        return _all_ours if self._keyspace.whole else owned_by(self._keyspace)

    def _repartitioned(self, tables: Tables) -> None:
        """Handle a version of the table that was read or confirmed."""
        keyspace, self._keyspace = self._keyspace, tables.keyspace()
        self.standby.owned = self._owned()
        self._keep(tables)
        if keyspace != self._keyspace:
            for each in self._watches.objects.list():
                self._object_changed(each, each)
        if (term := self._term()) is not None:
            term.looking.at_all()

    def _keep(self, tables: Tables) -> None:
        """Watch and store in full only the objects that are ours, or will be with the next version."""
        kept, self._kept = self._kept, tables.foreseen()
        if kept != self._kept and isinstance(objects := self.needed[0], ObjectsWatch):
            self._watches.objects.confine(self._kept)
            objects.choose(self._kept.shard_selector or "")


def _all_ours(_: Identified) -> Ownership:
    """Return `OURS` without hashing, for a supervisor without partitions."""
    return Ownership.OURS
