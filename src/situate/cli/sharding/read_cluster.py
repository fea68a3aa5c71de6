"""Read the state that a supervisor would see, once. Nothing is ever written.

The supervisor's own code interprets objects, Leases and Pods, with one difference. A supervisor measures how long a
Lease has not changed, but a command reads it once. So it uses the time that the executor wrote, and reports that.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace as replace_entry

from situate.cli.read_cluster.cluster_source import open_client, run_read
from situate.cli.sharding.options import SupervisorOptions
from situate.cli.terminal.failures import WrongInput
from situate.kube.client import Client
from situate.kube.election.lease_record import LeaseName
from situate.kube.errors import Forbidden, NotFound
from situate.kube.queries.discovery import DiscoveredResource, discover
from situate.objects.kinds.config_maps import ConfigMap
from situate.objects.kinds.events import CoreEvent
from situate.objects.kinds.leases import Lease
from situate.objects.resources import CONFIGMAPS, CORE_EVENTS, LEASES, NODES, PODS
from situate.objects.values.timestamps import rfc3339
from situate.runtime.process.logs import configure_logging
from situate.sharding.leases.lease_age import age_s, is_expired, supervisor_problem
from situate.sharding.leases.membership import Membership
from situate.sharding.model.decision_inputs import ClusterView, Ownership
from situate.sharding.model.executors import LiveExecutor, Members, SuspectLease
from situate.sharding.model.names import EXECUTOR_UID, POOL
from situate.sharding.model.object_view import ObjectView, view_of
from situate.sharding.partitions.ownership import OwnershipTest, static_ownership, table_ownership
from situate.sharding.partitions.partitions import ObjectIdentity, PartitionBy, hash_of, partition_of
from situate.sharding.partitions.slots import SlotTable, parse_table, slot_of
from situate.sharding.strategies import Placer, facts_of, rebuild
from situate.sharding.supervisor.controller.config.section import ShardSettings
from situate.sharding.supervisor.scope import Scope

ENTRY: Final = "table"
"""Key of the ConfigMap that holds the partitions."""
_TERM: Final = 0
"""Term of no leader: no decision of a command is ever carried out."""


@dataclass(frozen=True, slots=True)
class ShardingClusterState:
    """State of the cluster at one moment."""

    settings: ShardSettings
    scope: Scope
    views: tuple[ObjectView, ...]
    """Objects of this partition, by namespace and name."""
    members: Members
    leases: Mapping[str, Lease]
    """Leases of executors, by UID of the Pod."""
    leader: Lease | None
    """Lease of the supervisors; None if it does not exist or may not be read."""
    ownership: OwnershipTest
    """Function that returns whether the partition owns an object."""
    now: float
    wall: datetime
    remarks: tuple[str, ...]
    """Sentences about unreadable or unusual input and its consequences."""
    table: SlotTable | None = None
    """Partition table; None if partitions are fixed or absent."""
    foreign_objects: tuple[ObjectView, ...] = ()
    """Objects of other partitions."""
    leader_known: bool = True
    """Whether the supervisors' Lease could be read."""

    @property
    def supervisor_problem(self) -> str:
        """Why no supervisor holds the Lease of this partition; empty if one does, or if the Lease is not readable."""
        return supervisor_problem(str(self.scope.lease), self.leader, self.wall) if self.leader_known else ""

    def partition_of(self, obj: ObjectIdentity) -> str:
        """Return the partition of an object as text; empty without partitions."""
        return partition_text(self.settings, self.table, obj)

    def placer(self, without: str = "") -> Placer:
        """Return a placer like the supervisor's, with every object except the one with this UID."""
        placer = Placer(self.settings.make_strategy(self.scope.resource.kind), self.scope.rules)
        facts = [facts_of(view) for view in self.views if view.uid != without]
        rebuild(placer, facts, self.members.current.values())
        return placer

    def cluster_view(self, placer: Placer) -> ClusterView:
        """Return the situation for a hypothetical decision.

        Executors count as settled, because the time of their last change is unknown here.
        """
        config = replace(self.settings.config(self.settings.archive), scheduler_jitter=0.0)
        return ClusterView(
            now=self.now,
            wall=self.wall,
            members=self.members,
            choose=placer.choose,
            term=_TERM,
            config=config,
            adapter=self.settings.paths(),
            has_archiver=self.settings.archive.archive_url is not None
            or self.settings.archive.archive_url_file is not None,
            ownership=self.ownership,
        )

    def open_objects_of(self, executor: LiveExecutor) -> list[ObjectView]:
        return [view for view in self.views if not view.completed and view.executor_uid == executor.uid]


def observe(settings: ShardSettings, where: SupervisorOptions) -> ShardingClusterState:
    """Return the current state of a cluster, or of a copy of its objects. Raises `KubeError`, `WrongInput`."""
    configure_logging("warning")
    return run_read(where, _observe(settings, where))


async def _observe(settings: ShardSettings, where: SupervisorOptions) -> ShardingClusterState:
    async with open_client(where) as client:
        await _require_in_files(settings, client, where)
        wall = await _latest_renewal(client) if where.objects else None
        return await observe_with_client(settings, client, where.installation, wall)


async def _require_in_files(settings: ShardSettings, client: Client, where: SupervisorOptions) -> None:
    """Raise `WrongInput` for files without the resource."""
    if where.objects and await discover(client, *settings.group_version_plural) is None:
        files = ", ".join(map(str, where.objects))
        raise WrongInput(
            f"--objects {files} has no {settings.resource}, neither an object nor a definition; add the output of "
            f"kubectl get {settings.group_version_plural[2]} -A -o yaml, or correct --resource"
        )


async def _latest_renewal(client: Client) -> datetime:
    """Estimate when files of objects were written: the latest renewal of a Lease in them."""
    renewed = [each.spec.renew_time for each in (await client.list_all(LEASES)).items]
    return max((each for each in renewed if each is not None), default=datetime.now(UTC))


async def observe_with_client(
    settings: ShardSettings, client: Client, installation: str, wall: datetime | None = None
) -> ShardingClusterState:
    """Return the state, read with the caller's client.

    `wall` is the time for which Leases are evaluated; None: now.
    """
    remarks: list[str] = []
    served = await require_resource(settings, client)
    scope = settings.scope(
        served.resource, "situate sharding", installation, settings.archive, status_subresource=served.has_status
    )
    if wall is not None:
        remarks.append(f"Leases are judged as of {rfc3339(wall)}, the last renewal in the files")
    leader, leader_known = await _read_leader(settings, scope.lease, client, remarks)
    owned = static_ownership(scope.keyspace)
    table = None
    if settings.partition_table is not None:
        table = require_table(await read_table(settings, client, installation), settings.partition_table)
        owned = table_ownership(table, table, int(settings.partition or 0), scope.keyspace.by)
    page = await client.list_all(served.resource, settings.namespace)
    seen = [view_of(each.content, settings.paths()) for each in page.items]
    ours = [view for view in seen if owned(view) is not Ownership.FOREIGN]
    views = tuple(sorted(ours, key=lambda view: (view.namespace, view.name)))
    foreign = tuple(view for view in seen if owned(view) is Ownership.FOREIGN)
    open_by_uid = Counter(view.executor_uid for view in views if not view.completed)
    leases = await executor_leases(settings, client)
    now, wall = time.monotonic(), wall or datetime.now(UTC)
    membership = await _build_membership(scope, leases, client, remarks, now, wall)
    membership.record_synced(now)
    members = membership.members(now, open_by_uid)
    remarks += [
        _expired_message(each.id, leases[uid], wall)
        for uid, each in members.removed.items()
        if uid in leases and is_expired(leases[uid], wall, scope.times.lease_s)
    ]
    return ShardingClusterState(
        *(settings, scope, views, members, leases, leader, owned, now, wall, tuple(remarks)),
        table=table,
        foreign_objects=foreign,
        leader_known=leader_known,
    )


def find_entry(
    entries: Sequence[ShardSettings], where: SupervisorOptions, namespace: str, name: str
) -> tuple[ShardSettings, bool]:
    """Return the entry whose partition has the object, and whether exactly one object has the name.

    The entries differ only in their partition. If none has that partition, the result is a copy of the first with it.
    Raises `KubeError`, `WrongInput`.
    """
    configure_logging("warning")
    return asyncio.run(_find_entry(entries, where, namespace, name))


async def _find_entry(
    entries: Sequence[ShardSettings], where: SupervisorOptions, namespace: str, name: str
) -> tuple[ShardSettings, bool]:
    first = entries[0]
    async with open_client(where) as client:
        await _require_in_files(first, client, where)
        served = await require_resource(first, client)
        within = namespace if served.resource.namespaced else None
        found = await client.list(served.resource, within, field_selector=f"metadata.name={name}")
        if len(found.items) != 1:
            return first, False  # the error for a missing or ambiguous name is the same in each partition
        view = view_of(found.items[0].content, first.paths())
        table = None
        if first.partition_table is not None:
            table = require_table(await read_table(first, client, where.installation), first.partition_table)
    partition = partition_number(first, table, view)
    own = next((each for each in entries if each.partition == partition), replace_entry(first, partition=partition))
    return own, True


def partition_number(settings: ShardSettings, table: SlotTable | None, obj: ObjectIdentity) -> str | None:
    """Return `partition` of the entry that has the object; None without partitions."""
    if settings.partition is None:
        return None
    hashed = hash_of(obj, PartitionBy(settings.partition_by))
    if table is not None:
        return str(table.range_of(hashed).partition)
    count = int(settings.partition.partition("/")[2])
    return f"{partition_of(hashed, count)}/{count}"


def partition_text(settings: ShardSettings, table: SlotTable | None, obj: ObjectIdentity) -> str:
    """Return the partition of an object as text; empty without partitions."""
    number = partition_number(settings, table, obj)
    if number is None or table is None:
        return number or ""
    slot = slot_of(hash_of(obj, PartitionBy(settings.partition_by)))
    return f"{number} (slot {slot} of table {settings.partition_table})"


async def _list_events(view: ObjectView, where: SupervisorOptions) -> list[CoreEvent] | str:
    selector = f"involvedObject.uid={view.uid}"
    async with open_client(where) as client:
        try:
            page = await client.list(CORE_EVENTS, view.namespace or "default", field_selector=selector)
        except Forbidden as problem:
            return f"no permission to read Events, so refused writes are not shown: {problem}"
    return [each for each in page.items if each.involved_object.uid == view.uid]


def read_events(view: ObjectView, where: SupervisorOptions) -> list[CoreEvent] | str:
    """Return the Events about one object, or a sentence if they may not be read. Raises `KubeError`."""
    return asyncio.run(_list_events(view, where))


async def require_resource(settings: ShardSettings, client: Client) -> DiscoveredResource:
    """Return the resource. Raises `WrongInput` if the cluster does not have it."""
    served = await discover(client, *settings.group_version_plural)
    if served is None:
        raise WrongInput(f"the cluster does not serve {settings.resource}; apply its definition, or correct --resource")
    return served


async def executor_leases(settings: ShardSettings, client: Client) -> dict[str, Lease]:
    """Return the Leases of the pool, by UID of the Pod."""
    selector = f"{POOL}={settings.pool}"
    page = await client.list_all(LEASES, settings.executor_namespace, label_selector=selector)
    found = {each.metadata.annotations.get(EXECUTOR_UID) or each.spec.holder_identity: each for each in page.items}
    return {uid: each for uid, each in found.items() if uid}


async def read_table(settings: ShardSettings, client: Client, installation: str) -> ConfigMap | None:
    """Return the ConfigMap of the partition table; None if it does not exist, or if partitions are fixed."""
    if settings.partition_table is None:
        return None
    try:
        return await client.get(CONFIGMAPS, settings.partition_table, settings.leader_elect_namespace or installation)
    except NotFound:
        return None


def require_table(found: ConfigMap | None, name: str) -> SlotTable:
    """Parse the partition table. Raises `WrongInput` if it is missing or malformed."""
    if found is None:
        hint = f"situate sharding partitions create {name} --count 4"
        raise WrongInput(f"partition table not found: ConfigMap {name}; run: {hint}")
    table, mistakes = parse_table(found.data.get(ENTRY, ""))
    if table is None:
        raise WrongInput(f"ConfigMap {name}, entry {ENTRY}: {'; '.join(map(str, mistakes))}")
    return table


async def _build_membership(
    scope: Scope, leases: Mapping[str, Lease], client: Client, remarks: list[str], now: float, wall: datetime
) -> Membership:
    """Return the membership. A Lease's last change is the renewal time in it; a future time counts as now."""
    membership = Membership(scope.executors, scope.times, scope.pool, scope.partition)
    for uid, lease in leases.items():
        remarks += membership.record_lease(lease, now - max(0.0, age_s(lease, wall) or 0.0))
        if is_expired(lease, wall, scope.times.lease_s):
            suspect = SuspectLease(uid, lease.metadata.namespace, lease.metadata.name)
            membership.record_check(suspect, lease, now, now)
    where = scope.executors
    for pod in (await client.list_all(PODS, where.namespace, label_selector=where.selector)).items:
        membership.record_pod(pod)
    try:
        for node in (await client.list_all(NODES)).items:
            membership.record_node(node)
    except Forbidden as problem:
        remarks.append(f"no permission to list nodes, so lost nodes are not known: {problem}")
    return membership


async def _read_leader(
    settings: ShardSettings, lease: LeaseName, client: Client, remarks: list[str]
) -> tuple[Lease | None, bool]:
    """Return the supervisors' Lease, and whether it could be read."""
    try:
        return await client.get(LEASES, lease.name, lease.namespace), True
    except NotFound:
        said = (
            f"Lease {lease} does not exist: no supervisor has run; --installation-namespace selects another namespace"
        )
        if settings.partition is None and (parts := await _known_partitions(settings, lease, client)):
            said = (
                f"{settings.resource} has partitions with their own supervisors, {', '.join(parts)}: name the "
                "configuration with -f, so that its partitions are known"
            )
        remarks.append(said)
        return None, True
    except Forbidden as problem:
        remarks.append(f"no permission to read the supervisors' Lease, so the leader is not known: {problem}")
        return None, False


async def _known_partitions(settings: ShardSettings, lease: LeaseName, client: Client) -> list[str]:
    """Return the partitions of this resource and pool whose supervisors have a Lease in that namespace."""
    group, _, plural = settings.group_version_plural
    before, after = f"{plural}.{group}.{settings.pool}.", ".supervisor"
    names = [each.metadata.name for each in (await client.list_all(LEASES, lease.namespace)).items]
    return sorted(
        each.removeprefix(before).removesuffix(after)
        for each in names
        if each.startswith(before) and each.endswith(after) and len(each) > len(before) + len(after)
    )


def _expired_message(executor: str, lease: Lease, wall: datetime) -> str:
    age = age_s(lease, wall)
    return (
        f"executor {executor} counts as NotReady: Lease {lease.metadata.namespace}/{lease.metadata.name} was "
        f"renewed {age:.0f} s ago, and lasts {lease.spec.lease_duration_seconds:g} s; a wrong clock has the same effect"
    )
