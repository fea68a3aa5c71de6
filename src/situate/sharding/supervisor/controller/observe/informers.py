"""Maintain the view of objects, executors and partitions in one process, and notify the current term of changes.

The view is maintained whether or not this process leads. `SupervisorCache` holds the view, and `SupervisorTerm` uses
it.
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
from situate.sharding.partitions.ownership import OwnershipTest, static_ownership
from situate.sharding.partitions.partitions import Keyspace, ObjectIdentity
from situate.sharding.partitions.slot_tables import PartitionTables
from situate.sharding.strategies import Placer
from situate.sharding.supervisor.controller.act.metrics import Counts
from situate.sharding.supervisor.controller.observe.cache import SupervisorCache
from situate.sharding.supervisor.controller.observe.executor_watch import ExecutorObserver, MembersChange
from situate.sharding.supervisor.controller.observe.object_index import ObjectIndex
from situate.sharding.supervisor.controller.observe.objects_watch import ObjectsWatch
from situate.sharding.supervisor.controller.observe.table_watch import TableWatch
from situate.sharding.supervisor.controller.observe.watches import SupervisorStores
from situate.sharding.supervisor.controller.term import SupervisorTerm
from situate.sharding.supervisor.scope import Scope


class Informers:
    """The watches and views of one process, from its start to its end."""

    def __init__(
        self,
        scope: Scope,
        config: SupervisorConfig,
        adapter: ObjectAdapter,
        placer: Placer,
        watches: SupervisorStores,
        counts: Counts,
        client: Client,
        now: Callable[[], float],
        rng: random.Random,
        term: Callable[[], SupervisorTerm | None],
    ) -> None:
        """`term` returns the term to notify of changes; None while this process does not lead."""
        self._adapter = adapter
        self._watches = watches
        self._term = term
        self._keyspace = scope.keyspace
        self.table: TableWatch | None = None
        """None with static partitions."""
        if scope.partition_table:
            tables = PartitionTables(int(scope.partition), scope.keyspace.by)
            self._keyspace = tables.keyspace()
            self.table = TableWatch(tables, scope.lease_namespace, scope.partition_table, self._handle_table_change)
        membership = Membership(scope.executors, scope.times, scope.pool, scope.partition)
        ranked = config.keep_last_per_owner is not None
        self.index = ObjectIndex(scope.weight_of, self._handle_weight_change, ranked)
        self.observer = ExecutorObserver(client, membership, lambda: self.index.open, now, self._handle_members_change)
        self.cache = SupervisorCache(
            scope, config, adapter, placer, self.index, self.observer, self._ownership_test(), now, counts
        )
        self._synced = asyncio.Event()
        self._selected: Keyspace | None = None
        self.needed, others = watches.reflectors(client, rng)
        """The reflectors that every decision needs; that of the objects is the first."""
        self.reflectors = (*self.needed, *others)
        self._add_handlers()
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

    async def wait_objects_listed(self) -> None:
        """Wait until all objects that the newest table gives us, now or next, have been listed."""
        if isinstance(objects := self.needed[0], ObjectsWatch):
            await objects.wait_listed()

    def learn(self, found: Unstructured) -> None:
        """Store an object from an answer of the API server."""
        self.needed[0].learn(found)

    def highest_term(self) -> int:
        """Return the highest term written on objects; -1 if no object has one."""
        return max((view.term for view in self.index.views.values() if view.epoch), default=-1)

    async def sync(self) -> None:
        """Wait until everything has been listed, and then mark the view as complete."""
        watches, observer = self._watches, self.observer
        await watches.leases.wait_synced()
        await watches.pods.wait_synced()
        observer.record_synced()
        if self.table is not None:
            await watches.table.wait_synced()
            if not len(watches.table):
                self.table.handle_table_change(None, None)
            self._select_objects(self.table.tables)
        await watches.objects.wait_synced()
        observer.members()
        self._synced.set()
        self._log.info("executors and objects listed", pods=len(watches.pods), objects=len(watches.objects))

    def _add_handlers(self) -> None:
        watches, observer = self._watches, self.observer
        if self.table is not None:
            watches.table.on_change(self.table.handle_table_change)
        watches.objects.on_change(self._handle_object_change)
        watches.leases.on_change(observer.handle_lease_change)
        watches.pods.on_change(observer.handle_pod_change)
        watches.nodes.on_change(observer.handle_node_change)

    def _handle_object_change(self, old: Unstructured | None, new: Unstructured | None) -> None:
        seen = new or old
        assert seen is not None
        request = Request(seen.metadata.namespace, seen.metadata.name)
        view = None
        if new is not None and (self._keyspace.covers_everything or self._keyspace.holds(new.metadata)):
            view = view_of(new.content, self._adapter, new.raw)
        before = self.cache.record_object(request, view)
        if (term := self._term()) is not None and (before is not None or view is not None):
            term.handle_change(request, before, view)

    def _handle_members_change(self, before: Members, after: Members, change: MembersChange | None) -> None:
        self.cache.report_members(before, after)
        if (term := self._term()) is not None and change is not None:
            term.triggers.enqueue_for_members(before, after, change)

    def _handle_weight_change(self, uid: str, before: int, after: int) -> None:
        self.observer.handle_weight_change(uid, before, after)

    def _ownership_test(self) -> OwnershipTest:
        if self.table is not None:
            return self.table.tables.ownership_test()
        return _own_everything if self._keyspace.covers_everything else static_ownership(self._keyspace)

    def _handle_table_change(self, tables: PartitionTables) -> None:
        """Handle a version of the table that was read or confirmed."""
        keyspace, self._keyspace = self._keyspace, tables.keyspace()
        self.cache.ownership = self._ownership_test()
        self._select_objects(tables)
        if keyspace != self._keyspace:
            for each in self._watches.objects.list():
                self._handle_object_change(each, each)
        if (term := self._term()) is not None:
            term.triggers.enqueue_all()

    def _select_objects(self, tables: PartitionTables) -> None:
        """Watch and store in full only the objects that are ours, or will be with the next version."""
        kept, self._selected = self._selected, tables.foreseen_keyspace()
        if kept != self._selected and isinstance(objects := self.needed[0], ObjectsWatch):
            self._watches.objects.restrict_to(self._selected)
            objects.select_shard(self._selected.shard_selector or "")


def _own_everything(_: ObjectIdentity) -> Ownership:
    """Return `OURS` without hashing, for a supervisor without partitions."""
    return Ownership.OURS
