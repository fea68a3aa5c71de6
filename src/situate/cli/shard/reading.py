"""What a supervisor would see of a cluster now, read once. Nothing is ever written.

Objects, Leases and pods are judged by the same code as in the supervisor. One thing differs: a supervisor knows for how
long a Lease has not changed, and whoever reads once does not; so a Lease that looks old is told, and believed.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from situate.cli.failures import WrongInput
from situate.cli.progress import progress
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.kube.discovery import Served, discover
from situate.kube.errors import Forbidden, NotFound
from situate.kube.lease_record import LeaseName
from situate.objects.configuration import ConfigMap
from situate.objects.coordination import Lease
from situate.objects.resources import CONFIGMAPS, LEASES, NODES, PODS
from situate.runtime.logs import configure_logging
from situate.sharding.assignment import ObjectView, view_of
from situate.sharding.controller.section import ShardSettings
from situate.sharding.leases import Membership
from situate.sharding.members import Executor, Members
from situate.sharding.names import EXECUTOR_UID, POOL
from situate.sharding.owning import Owned, owned_by, owned_under
from situate.sharding.scope import Scope
from situate.sharding.situation import Ownership, Situation
from situate.sharding.slots import SlotTable, parse_table
from situate.sharding.strategies import Placer, facts_of, rebuild

ENTRY: Final = "table"
"""Of the ConfigMap with the partitions."""
_TERM: Final = 0
"""Of nobody: no decision that is made here is ever carried out."""


@dataclass(frozen=True, slots=True)
class Where:
    """Which cluster, and which installation in it."""

    kubeconfig: Path | None
    context: str | None
    installation: str
    """The namespace of the supervisors' Lease."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything, as of one moment."""

    settings: ShardSettings
    scope: Scope
    views: tuple[ObjectView, ...]
    """Of this partition, by namespace and name."""
    members: Members
    leases: Mapping[str, Lease]
    """Of executors, by UID of the pod."""
    leader: Lease | None
    """Of the supervisors; None where there is none, or it may not be read."""
    owned: Owned
    """What the partition says about an object."""
    now: float
    wall: datetime
    remarks: tuple[str, ...]
    """What could not be read or looks odd, and what follows from that; a sentence each."""

    def placer(self, without: str = "") -> Placer:
        """As the supervisor's, told everything but the object with this UID."""
        placer = Placer(self.settings.make_strategy(self.scope.resource.kind), self.scope.rules)
        facts = [facts_of(view) for view in self.views if view.uid != without]
        rebuild(placer, facts, self.members.current.values())
        return placer

    def situation(self, placer: Placer) -> Situation:
        """For a decision that is only looked at: executors count as settled, for nobody knows here since when."""
        config = replace(self.settings.config(self.settings.archive), scheduler_jitter=0.0)
        return Situation(
            now=self.now,
            wall=self.wall,
            members=self.members,
            choose=placer.choose,
            term=_TERM,
            config=config,
            adapter=self.settings.paths(),
            has_archiver=self.settings.archive.archive_url is not None
            or self.settings.archive.archive_url_file is not None,
            ownership=self.owned,
        )

    def open_of(self, executor: Executor) -> list[ObjectView]:
        return [view for view in self.views if not view.completed and view.executor_uid == executor.uid]


def observe(settings: ShardSettings, where: Where) -> Observed:
    """What the cluster shows now. Raises `KubeError`, `WrongInput`."""
    configure_logging("warning")
    with progress("reading the cluster"):
        return asyncio.run(_observe(settings, where))


async def _observe(settings: ShardSettings, where: Where) -> Observed:
    client = connect(find_connection(where.kubeconfig, where.context), random.Random())
    try:
        return await observed(settings, client, where.installation)
    finally:
        await client.close()


async def observed(settings: ShardSettings, client: Client, installation: str) -> Observed:
    """As `observe`, with a client of the caller's."""
    remarks: list[str] = []
    served = await required(settings, client)
    scope = settings.scope(
        served.resource, "situate shard", installation, settings.archive, status_subresource=served.has_status
    )
    leader = await _leader(scope.lease, client, remarks)
    owned = owned_by(scope.keyspace)
    if settings.partition_table is not None:
        table = table_of(await read_table(settings, client, installation), settings.partition_table)
        owned = owned_under(table, table, int(settings.partition or 0), scope.keyspace.by)
    page = await client.list_all(served.resource, settings.namespace)
    seen = [view_of(each.content, settings.paths()) for each in page.items]
    ours = [view for view in seen if owned(view) is not Ownership.FOREIGN]
    views = tuple(sorted(ours, key=lambda view: (view.namespace, view.name)))
    open_by_uid = Counter(view.executor_uid for view in views if not view.completed)
    leases = await executor_leases(settings, client)
    membership = await _membership(scope, leases.values(), client, remarks)
    now, wall = time.monotonic(), datetime.now(UTC)
    membership.synced(now)
    members = membership.members(now, open_by_uid)
    remarks += [_looks_old(leases[uid], wall) for uid in members.living if uid in leases and _is_old(leases[uid], wall)]
    return Observed(settings, scope, views, members, leases, leader, owned, now, wall, tuple(remarks))


async def required(settings: ShardSettings, client: Client) -> Served:
    """Raises `WrongInput` where the cluster has no such resource."""
    served = await discover(client, *settings.group_version_plural)
    if served is None:
        raise WrongInput(f"the cluster has no {settings.resource}; apply its definition, or correct --resource")
    return served


async def executor_leases(settings: ShardSettings, client: Client) -> dict[str, Lease]:
    """Of the pool, by UID of the pod."""
    selector = f"{POOL}={settings.pool}"
    page = await client.list_all(LEASES, settings.executor_namespace, label_selector=selector)
    found = {each.metadata.annotations.get(EXECUTOR_UID) or each.spec.holder_identity: each for each in page.items}
    return {uid: each for uid, each in found.items() if uid}


async def read_table(settings: ShardSettings, client: Client, installation: str) -> ConfigMap | None:
    """None: there is none, or the partitions are fixed."""
    if settings.partition_table is None:
        return None
    try:
        return await client.get(CONFIGMAPS, settings.partition_table, settings.leader_elect_namespace or installation)
    except NotFound:
        return None


def table_of(found: ConfigMap | None, name: str) -> SlotTable:
    """Raises `WrongInput` where there is none that can be read."""
    if found is None:
        hint = f"situate shard partitions {name} --create 4"
        raise WrongInput(f"ConfigMap {name}: there is no such table of partitions; {hint}")
    table, mistakes = parse_table(found.data.get(ENTRY, ""))
    if table is None:
        raise WrongInput(f"ConfigMap {name}, entry {ENTRY}: {'; '.join(map(str, mistakes))}")
    return table


async def _membership(scope: Scope, leases: Iterable[Lease], client: Client, remarks: list[str]) -> Membership:
    membership = Membership(scope.executors, scope.times, scope.pool, scope.partition)
    now = time.monotonic()
    for lease in leases:
        remarks += membership.saw_lease(lease, now)
    where = scope.executors
    for pod in (await client.list_all(PODS, where.namespace, label_selector=where.selector)).items:
        membership.saw_pod(pod)
    try:
        for node in (await client.list_all(NODES)).items:
            membership.saw_node(node)
    except Forbidden as problem:
        remarks.append(f"nodes may not be listed, so that lost ones are not known: {problem}")
    return membership


async def _leader(lease: LeaseName, client: Client, remarks: list[str]) -> Lease | None:
    try:
        return await client.get(LEASES, lease.name, lease.namespace)
    except NotFound:
        remarks.append(f"there is no Lease {lease}: no supervisor has run; --installation says where it would be")
    except Forbidden as problem:
        remarks.append(f"the supervisors' Lease may not be read, so that nobody is known to lead: {problem}")
    return None


def _is_old(lease: Lease, wall: datetime) -> bool:
    renewed = lease.spec.renew_time
    held = bool(lease.spec.holder_identity)
    return held and renewed is not None and (wall - renewed).total_seconds() > 2 * lease.spec.lease_duration_seconds


def _looks_old(lease: Lease, wall: datetime) -> str:
    assert lease.spec.renew_time is not None
    age = (wall - lease.spec.renew_time).total_seconds()
    where = f"{lease.metadata.namespace}/{lease.metadata.name}"
    return f"Lease {where} says that it was renewed {age:.0f} s ago: its executor may be gone, or its clock wrong"
