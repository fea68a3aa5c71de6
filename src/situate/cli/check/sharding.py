"""Check that the supervisors of a configuration work: each partition has one, and the fence lets it write."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace as replace_entry

from situate.cli.check.finding import Finding
from situate.cli.manifests.sharding import NAME, executor_name
from situate.cli.sharding.read_cluster import read_table, require_table
from situate.cli.terminal.failures import WrongInput
from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.errors import Forbidden, KubeError, NotFound
from situate.kube.login.connection import Connection, Impersonation
from situate.kube.queries.discovery import discover
from situate.objects.kinds.leases import Lease
from situate.objects.resources import LEASES, unstructured
from situate.sharding.leases.lease_age import supervisor_problem
from situate.sharding.model.decision_inputs import Ownership
from situate.sharding.model.names import PARTITION, POOL
from situate.sharding.partitions.ownership import static_ownership, table_ownership
from situate.sharding.partitions.partitions import PartitionBy
from situate.sharding.partitions.slots import SlotTable
from situate.sharding.supervisor.controller.config.section import ShardSettings
from situate.sharding.supervisor.controller.fence_check import WriteAccess, check_write_access
from situate.sharding.supervisor.report import supervisor_report

_DEPLOYMENTS = unstructured("apps", "v1", "Deployment", "deployments")
_PODS = unstructured("", "v1", "Pod", "pods")
_RESOURCE = "SITUATE_RESOURCE"
"""Environment variable of an executor's container, as `situate manifests sharding` prints it."""


@dataclass(frozen=True, slots=True)
class _Supervisor:
    """Entry of the configuration with its Lease."""

    entry: ShardSettings
    namespace: str
    """The Lease's namespace."""
    lease: Lease | None
    problem: str
    """Why no supervisor holds the Lease; empty if one does."""


async def check_supervisors(
    client: Client, connection: Connection, entries: Sequence[ShardSettings], installation: str
) -> AsyncIterator[Finding]:
    """Check the supervisors of all entries. `installation` is the namespace of Leases that do not exist yet."""
    wall = datetime.now(UTC)
    groups: dict[tuple[str, str], list[ShardSettings]] = {}
    for entry in entries:
        groups.setdefault((entry.resource, entry.pool), []).append(entry)
    for group in groups.values():
        found = [await _read_supervisor(client, entry, installation, wall) for entry in group]
        for each in _check_running(found):
            yield each
        async for each in _check_tables(client, found, wall):
            yield each
        for supervisor in found:
            if not supervisor.problem:
                yield await _check_writes(client, connection, supervisor)
        async for each in _check_leftover_executors(client, found, wall):
            yield each


async def _read_supervisor(client: Client, entry: ShardSettings, installation: str, wall: datetime) -> _Supervisor:
    namespace, name = entry.leader_elect_namespace or installation, entry.lease_name
    lease: Lease | None = None
    try:
        if entry.leader_elect_namespace is None:
            page = await client.list(LEASES, None, field_selector=f"metadata.name={name}")
            named = [each for each in page.items if each.metadata.name == name]
            lease = max(named, key=lambda each: not supervisor_problem(name, each, wall), default=None)
        else:
            lease = await client.get(LEASES, name, namespace)
    except (NotFound, Forbidden):
        try:
            lease = await client.get(LEASES, name, namespace)
        except NotFound:
            lease = None
        except Forbidden as refused:
            return _Supervisor(entry, namespace, None, str(refused))
    if lease is not None:
        namespace = lease.metadata.namespace
    return _Supervisor(entry, namespace, lease, supervisor_problem(f"{namespace}/{name}", lease, wall))


def _check_running(found: Sequence[_Supervisor]) -> Iterable[Finding]:
    """Check that each entry has a supervisor. A fresh installation, where no supervisor has run yet, passes."""
    begun = any(each.lease is not None and each.lease.spec.holder_identity for each in found)
    for each in found:
        what = f"supervisor of {each.entry.name}"
        if not each.problem:
            yield Finding(what, ok=True)
        elif not begun:
            yield Finding(f"{what}: not running yet", ok=True)
        else:
            step = (
                f"{each.problem}, so its objects wait; start it with situate run, or apply the output of situate "
                "manifests sharding"
            )
            yield Finding(what, ok=False, next_step=step)
        report = None if each.lease is None else supervisor_report(each.lease)
        if report is not None and report.write_refused:
            yield Finding(f"writes of the {what}", ok=False, next_step=report.write_refused)


async def _check_tables(client: Client, found: Sequence[_Supervisor], wall: datetime) -> AsyncIterator[Finding]:
    """Check that each partition table exists, and that each partition has an entry or a supervisor elsewhere."""
    by_table: dict[str, list[_Supervisor]] = {}
    for each in found:
        if each.entry.partition_table is not None:
            by_table.setdefault(each.entry.partition_table, []).append(each)
    for name, own in by_table.items():
        first = own[0]
        what = f"table {first.namespace}/{name}"
        try:
            table = require_table(await read_table(first.entry, client, first.namespace), name)
        except (WrongInput, KubeError) as problem:
            yield Finding(what, ok=False, next_step=str(problem))
            continue
        yield Finding(what, ok=True)
        known = {each.entry.partition for each in own}
        for partition in table.partitions:
            if str(partition) not in known:
                yield await _check_foreign_partition(client, first, table, partition, wall)


async def _check_foreign_partition(
    client: Client, first: _Supervisor, table: SlotTable, partition: int, wall: datetime
) -> Finding:
    entry = replace_entry(first.entry, partition=str(partition))
    try:
        lease: Lease | None = await client.get(LEASES, entry.lease_name, first.namespace)
    except NotFound:
        lease = None
    except Forbidden as refused:
        return Finding(f"supervisor of {entry.name}: not checked ({refused})", ok=True)
    problem = supervisor_problem(f"{first.namespace}/{entry.lease_name}", lease, wall)
    slots = sum(len(each) for each in table.ranges if partition in (each.partition, each.to))
    step = (
        f"{problem}, and the configuration has no entry for it, so the objects of its {slots} slots wait. Add an entry "
        f"with partition {partition}, or run situate sharding partitions merge {entry.partition_table} {partition} "
        f"--into {first.entry.partition}"
    )
    return Finding(f"supervisor of {entry.name}", ok=not problem, next_step=step if problem else "")


async def _check_writes(client: Client, connection: Connection, supervisor: _Supervisor) -> Finding:
    """Try an assignment in a dry run, as the account under which the leader runs. Nothing is stored."""
    entry, lease = supervisor.entry, supervisor.lease
    assert lease is not None, "held"
    what = f"the fence lets the supervisor of {entry.name} write"
    account = await _leader_account(client, lease, supervisor.namespace)
    as_supervisor = connect(
        replace(
            connection, impersonation=Impersonation(f"system:serviceaccount:{account}", groups=_SERVICE_ACCOUNT_GROUPS)
        ),
        random.Random(),
    )
    try:
        served = await discover(client, *entry.group_version_plural)
        if served is None:
            return Finding(f"{what}: not checked (the cluster does not serve the resource)", ok=True)
        owned = static_ownership(entry.keyspace())
        if entry.partition_table is not None:
            table = require_table(await read_table(entry, client, supervisor.namespace), entry.partition_table)
            owned = table_ownership(table, table, int(entry.partition or 0), PartitionBy(entry.partition_by))
        found = await check_write_access(
            as_supervisor,
            served.resource,
            entry.paths(),
            lease.spec.lease_transitions,
            lambda view: owned(view) is Ownership.OURS,
            entry.namespace,
        )
    except (KubeError, WrongInput) as problem:
        return Finding(f"{what}: not checked ({problem})", ok=True)
    finally:
        await as_supervisor.close()
    if found.access is WriteAccess.UNKNOWN:
        return Finding(f"{what}: not checked as {account} ({found.message})", ok=True)
    refused = found.access is WriteAccess.REFUSED
    return Finding(what, ok=not refused, next_step=found.message if refused else "")


_SERVICE_ACCOUNT_GROUPS = ("system:serviceaccounts", "system:authenticated")


async def _leader_account(client: Client, lease: Lease, namespace: str) -> str:
    """Return the leader's ServiceAccount as `NAMESPACE:NAME`, from its Pod, else as `situate manifests` names it."""
    pod = lease.spec.holder_identity.rpartition("_")[0] or lease.spec.holder_identity
    try:
        found = await client.get(_PODS, pod, namespace)
    except (NotFound, Forbidden):
        return f"{namespace}:{NAME}"
    return f"{namespace}:{found.content['spec'].get('serviceAccountName') or 'default'}"


async def _check_leftover_executors(
    client: Client, found: Sequence[_Supervisor], wall: datetime
) -> AsyncIterator[Finding]:
    """Find executors of this resource and pool without a supervisor, from an earlier output for other partitions."""
    first = found[0]
    group, _, plural = first.entry.group_version_plural
    what = f"executors of {first.entry.resource} pool {first.entry.pool}"
    wanted = {executor_name(each.entry) for each in found}
    try:
        listed = await client.list_all(_DEPLOYMENTS, None, label_selector="app.kubernetes.io/managed-by=situate")
    except Forbidden as refused:
        yield Finding(f"{what}: earlier ones not checked ({refused})", ok=True)
        return
    for each in listed.items:
        labels, resource = _executor_template(each.content)
        name, namespace = each.metadata.name, each.metadata.namespace
        if (resource, labels.get(POOL)) != (first.entry.resource, first.entry.pool) or name in wanted:
            continue
        part = f".{labels[PARTITION]}" if PARTITION in labels else ""
        lease_name = f"{plural}.{group}.{first.entry.pool}{part}.supervisor"
        try:
            lease: Lease | None = await client.get(LEASES, lease_name, first.namespace)
        except NotFound:
            lease = None
        if problem := supervisor_problem(f"{first.namespace}/{lease_name}", lease, wall):
            step = (
                f"neither an entry of the configuration nor a supervisor has them ({problem}); run kubectl delete "
                f"deployment,serviceaccount,role,rolebinding -n {namespace} -l app.kubernetes.io/name={name}"
            )
            yield Finding(f"Deployment {namespace}/{name}", ok=False, next_step=step)


def _executor_template(deployment: Mapping[str, Any]) -> tuple[Mapping[str, str], str]:
    """Return the labels of the Pods, and the resource in their first container's environment; empty if it has none."""
    template = deployment["spec"]["template"]
    variables = template["spec"]["containers"][0].get("env") or ()
    resource = next((each.get("value", "") for each in variables if each.get("name") == _RESOURCE), "")
    return (template.get("metadata") or {}).get("labels") or {}, resource
