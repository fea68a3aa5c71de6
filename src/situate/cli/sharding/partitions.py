"""Show the partition table, and change it: split, merge, another number of partitions.

A change takes two versions. The first one freezes the slots that move, and their supervisors stop assigning. The second
one gives them to their new owners, when every supervisor has confirmed the first one and no executor holds an object of
these slots.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import typer

from situate.cli.read_cluster.cluster_source import open_client
from situate.cli.sharding.find_supervisor import select_table_entry
from situate.cli.sharding.options import TableOptions
from situate.cli.sharding.read_cluster import ENTRY, require_resource, require_table
from situate.cli.terminal.failures import ExitCode, WrongInput, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column, print_data, print_table
from situate.cli.terminal.streams import print_error, print_line
from situate.kube.client import Client
from situate.kube.errors import AlreadyExists, Conflict, NotFound
from situate.kube.patches import MergePatch
from situate.objects.kinds.config_maps import ConfigMap
from situate.objects.resources import CONFIGMAPS, LEASES
from situate.sharding.leases.lease_age import supervisor_problem
from situate.sharding.model.object_view import view_of
from situate.sharding.partitions.partitions import PartitionBy, hash_of
from situate.sharding.partitions.repartition import merge_partitions, resize_owners, split_partition
from situate.sharding.partitions.slots import (
    SLOTS,
    BadTable,
    SlotTable,
    even_table,
    freeze_slots,
    hand_over_obstacles,
    hand_over_slots,
    slot_of,
    thaw_slots,
)
from situate.sharding.supervisor.controller.config.section import ShardSettings
from situate.sharding.supervisor.report import confirmed_versions

_COLUMNS = (
    Column("partition", right=True),
    Column("slots", right=True),
    Column("frozen", right=True),
    Column("arriving", right=True),
    Column("open", right=True),
    Column("confirmed", right=True),
    Column("supervisor"),
)


@dataclass(frozen=True, slots=True)
class PartitionTableState:
    """Partition table, and the state that its hand-over depends on."""

    config_map: ConfigMap | None
    table: SlotTable | None
    open_by_slot: Mapping[int, int]
    confirmed: Mapping[int, int]
    supervisors: Mapping[int, str]
    """Holder of the supervisor's Lease by partition. Partitions without a live supervisor are absent."""
    supervisor_problems: Mapping[int, str]
    """Reason why a partition has no supervisor, by partition."""

    def hand_over_conditions(self, table: SlotTable, *, force: bool) -> list[str]:
        """Return the conditions that a hand-over waits for. `force` ignores supervisors of receiving partitions."""
        waits = hand_over_obstacles(table, self.confirmed, self.open_by_slot)
        return waits if force else [*waits, *self.missing_supervisors(table)]

    def missing_supervisors(self, table: SlotTable) -> list[str]:
        """Return a sentence for each partition that receives slots and has no supervisor to assign their objects."""
        receiving = sorted({each.to for each in table.frozen_slots if each.to is not None})
        return [
            f"partition {each} has no supervisor: {self.supervisor_problems[each]}"
            for each in receiving
            if each in self.supervisor_problems
        ]


TableChange = Callable[[PartitionTableState, str], SlotTable | None]
"""Returns the next version of the table with this name, or None if it must wait. Raises `WrongInput` and `BadTable`."""


def creation_change(count: int) -> TableChange:
    """Return a change to a new table of `count` equal partitions."""

    def change(read: PartitionTableState, name: str) -> SlotTable:
        if read.config_map is not None:
            hint = f"`situate sharding partitions resize {name} --count {count}` changes it"
            raise WrongInput(f"ConfigMap {name} already exists; {hint}")
        return even_table(count)

    return change


def resize_change(count: int) -> TableChange:
    """Return a change to another number of partitions that moves as few slots as possible."""

    def change(read: PartitionTableState, name: str) -> SlotTable:
        table = require_table(read.config_map, name)
        owners = table.owners()
        present = sorted(set(owners))
        wanted = present[:count]
        while len(wanted) < count:
            wanted.append(_free_partition(wanted))
        load = [read.open_by_slot.get(slot, 0) for slot in range(SLOTS)]
        return freeze_slots(table, resize_owners(owners, wanted, load if any(load) else None))

    return change


def split_change(partition: int, into: int | None) -> TableChange:
    """Return a change that moves half of a partition's slots. If `into` is None, they go to the first free number."""

    def change(read: PartitionTableState, name: str) -> SlotTable:
        table = require_table(read.config_map, name)
        owners = table.owners()
        return freeze_slots(
            table, split_partition(owners, partition, _free_partition(owners) if into is None else into)
        )

    return change


def merge_change(partition: int, into: int) -> TableChange:
    """Return a change that moves all slots of a partition to another one."""

    def change(read: PartitionTableState, name: str) -> SlotTable:
        table = require_table(read.config_map, name)
        return freeze_slots(table, merge_partitions(table.owners(), partition, into))

    return change


def hand_over_change(*, force: bool) -> TableChange:
    """Return a change that gives frozen slots to their new owners."""

    def change(read: PartitionTableState, name: str) -> SlotTable | None:
        table = require_table(read.config_map, name)
        return None if read.hand_over_conditions(table, force=force) else hand_over_slots(table)

    return change


def thaw_table(read: PartitionTableState, name: str) -> SlotTable:
    """Leave frozen slots with their current owners."""
    return thaw_slots(require_table(read.config_map, name))


def show(table: str, where: TableOptions, output: Format) -> None:
    """Print the table, and the reasons why a hand-over would wait."""
    with report_failures():
        read, _, _ = _read_and_change(table, where, None)
    _print(table, read, None, where, output)


def write_change(table: str, where: TableOptions, change: TableChange, output: Format) -> None:
    """Apply one change and print the table; exit with 1 if the change is refused or must wait."""
    with report_failures():
        read, after, refused = _read_and_change(table, where, change)
    for each in refused:
        print_error(f"{each}; the objects of its slots would wait")
    if refused:
        print_error(_next_step(select_table_entry(table, where), table))
        raise typer.Exit(ExitCode.NO)
    _print(table, read, after, where, output)
    if after is None and read.table is not None and read.hand_over_conditions(read.table, force=where.force):
        raise typer.Exit(ExitCode.NO)


def _read_and_change(
    table: str, where: TableOptions, change: TableChange | None
) -> tuple[PartitionTableState, SlotTable | None, list[str]]:
    settings = select_table_entry(table, where)
    place = (settings.leader_elect_namespace or where.installation, table)
    return asyncio.run(_apply_change(where, settings, place, change))


def _next_step(settings: ShardSettings, table: str) -> str:
    return (
        f"nothing was written: add an entry for {settings.resource} with partitionTable {table} and that partition to "
        "the configuration, apply the output of `situate manifests sharding`, and repeat; or repeat with --force"
    )


async def _apply_change(
    where: TableOptions, settings: ShardSettings, place: tuple[str, str], change: TableChange | None
) -> tuple[PartitionTableState, SlotTable | None, list[str]]:
    """Return the table before, the written one (None: no write), and the reasons of a refusal."""
    async with open_client(where) as client:
        read = await _read_state(client, settings, place, PartitionBy(where.by or settings.partition_by))
        if change is None:
            require_table(read.config_map, place[1])
            return read, None, []
        try:
            after = change(read, place[1])
        except BadTable as bad:
            raise WrongInput(str(bad)) from None
        if after is None or after == read.table:
            return read, None, []
        read = await _with_supervisors(client, settings, place[0], read, after)
        if not where.force and (refused := read.missing_supervisors(after)):
            return read, None, refused
        if not where.dry_run:
            await _write_table(client, place, read.config_map, after)
        return read, after, []


async def _read_state(
    client: Client, settings: ShardSettings, where: tuple[str, str], by: PartitionBy
) -> PartitionTableState:
    namespace, name = where
    try:
        found = await client.get(CONFIGMAPS, name, namespace)
    except NotFound:
        return PartitionTableState(None, None, {}, {}, {}, {})
    table = require_table(found, name)
    served = await require_resource(settings, client)
    open_by_slot: Counter[int] = Counter()
    for each in (await client.list_all(served.resource, settings.namespace)).items:
        view = view_of(each.content, settings.paths())
        if not view.completed and view.holder is not None:
            open_by_slot[slot_of(hash_of(view, by))] += 1
    return await _with_supervisors(
        client, settings, namespace, PartitionTableState(found, table, open_by_slot, {}, {}, {}), table
    )


async def _with_supervisors(
    client: Client, settings: ShardSettings, namespace: str, read: PartitionTableState, table: SlotTable
) -> PartitionTableState:
    """Add the reports in the Leases of the supervisors of the table's partitions."""
    group, _, plural = settings.group_version_plural
    leases, supervisors, missing = {}, {}, {}
    for partition in table.partitions:
        name = f"{plural}.{group}.{settings.pool}.{partition}.supervisor"
        try:
            lease = leases[partition] = await client.get(LEASES, name, namespace)
        except NotFound:
            missing[partition] = supervisor_problem(f"{namespace}/{name}", None, datetime.now(UTC))
            continue
        if problem := supervisor_problem(f"{namespace}/{name}", lease, datetime.now(UTC)):
            missing[partition] = problem
        else:
            supervisors[partition] = lease.spec.holder_identity
    return replace(read, confirmed=confirmed_versions(leases), supervisors=supervisors, supervisor_problems=missing)


def _free_partition(taken: Sequence[int]) -> int:
    return next(number for number in range(SLOTS + 1) if number not in set(taken))


async def _write_table(client: Client, where: tuple[str, str], found: ConfigMap | None, after: SlotTable) -> None:
    """Write with the version that was read, so that one of two concurrent changes fails."""
    namespace, name = where
    if found is None:
        content = {"metadata": {"name": name, "namespace": namespace}, "data": {ENTRY: after.to_text()}}
        try:
            await client.create(CONFIGMAPS, content, namespace)
        except AlreadyExists:
            raise WrongInput(
                f"another client has just created ConfigMap {namespace}/{name}; check the table, and repeat"
            ) from None
        return
    version = {"resourceVersion": found.metadata.resource_version}
    try:
        await client.patch(
            CONFIGMAPS, name, MergePatch({"metadata": version, "data": {ENTRY: after.to_text()}}), namespace
        )
    except Conflict:
        raise WrongInput(
            f"another client has just changed ConfigMap {namespace}/{name}; check the table, and repeat"
        ) from None


def _print(name: str, read: PartitionTableState, after: SlotTable | None, where: TableOptions, output: Format) -> None:
    table = after or read.table
    assert table is not None, "shown after it was read or made"
    waits = read.hand_over_conditions(table, force=where.force)
    rows = [_row(table, partition, read) for partition in table.partitions]
    if output in (Format.JSON, Format.YAML):
        data: dict[str, Any] = {
            "version": table.version,
            "written": after is not None and not where.dry_run,
            "partitions": [dict(zip((column.title for column in _COLUMNS), row, strict=True)) for row in rows],
            "waits": waits,
        }
        print_data(data, output)
        return
    done = "" if after is None else " (not written)" if where.dry_run else " (written now)"
    print_line(f"version {table.version}{done}: {len(table.partitions)} partitions")
    print_table(_COLUMNS, [tuple("-" if each is None else each for each in row) for row in rows], output)
    for wait in waits:
        print_error(f"the hand-over waits: {wait}")
    for partition, problem in sorted(read.supervisor_problems.items()):
        if any(each.partition == partition for each in table.ranges):
            print_error(f"partition {partition} has no supervisor, so its objects wait: {problem}")
    if table.frozen_slots and not waits:
        print_line(f"every frozen slot can be handed over: `situate sharding partitions hand-over {name}`")


def _row(table: SlotTable, partition: int, read: PartitionTableState) -> tuple[int | str | None, ...]:
    own = [each for each in table.ranges if each.partition == partition]
    arriving = [each for each in table.ranges if each.to == partition]
    opened = sum(read.open_by_slot.get(slot, 0) for each in own for slot in range(each.start, each.end))
    return (
        partition,
        sum(map(len, own)),
        sum(len(each) for each in own if each.to is not None),
        sum(map(len, arriving)),
        opened,
        read.confirmed.get(partition),
        read.supervisors.get(partition),
    )
