"""`situate sharding partitions`: the elastic table, and its changes: split, merge, another number of partitions.

A change takes two versions. The first freezes the slots that move, and their supervisors stop assigning; the second
gives them to their new owners, once everybody has confirmed the first and nothing of the slots is held any more.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from situate.cli.failures import ExitCode, WrongInput, mendable_failures
from situate.cli.formats import Format
from situate.cli.options import ContextOption, KubeconfigOption, OptionalFileOption, OutputOption, SetOption
from situate.cli.output import Column, print_data, print_table
from situate.cli.sharding.entry import LeaseNamespaceOption, PoolOption, ResourceOption, entry_of_table
from situate.cli.sharding.reading import ENTRY, required, table_of
from situate.cli.streams import complain, say
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.kube.connection import Connection
from situate.kube.errors import AlreadyExists, Conflict, NotFound
from situate.kube.patches import MergePatch
from situate.objects.configuration import ConfigMap
from situate.objects.resources import CONFIGMAPS, LEASES
from situate.sharding.assignment import view_of
from situate.sharding.controller.section import ShardSettings
from situate.sharding.liveness import supervisor_problem
from situate.sharding.partitions import PartitionBy, hash_of
from situate.sharding.resizing import merged, resized, split
from situate.sharding.slots import (
    SLOTS,
    BadTable,
    SlotTable,
    even_table,
    frozen,
    hand_over_waits_for,
    handed_over,
    slot_of,
    thawed,
)
from situate.sharding.supervisor_reports import confirmed_versions

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
class Change:
    """What is asked for; at most one."""

    create: int | None
    count: int | None
    split: int | None
    into: int | None
    merge: int | None
    hand_over: bool
    thaw: bool

    def check(self) -> None:
        """Raises `WrongInput`."""
        asked = [
            name
            for name, given in (
                ("--create", self.create is not None),
                ("--count", self.count is not None),
                ("--split", self.split is not None),
                ("--merge", self.merge is not None),
                ("--hand-over", self.hand_over),
                ("--thaw", self.thaw),
            )
            if given
        ]
        if len(asked) > 1:
            raise WrongInput(f"{' and '.join(asked)}: one change at a time")
        if self.into is not None and self.split is None and self.merge is None:
            raise WrongInput("--into goes with --split or --merge")
        if self.merge is not None and self.into is None:
            raise WrongInput(f"--merge {self.merge}: say into which partition by --into")

    @property
    def asked(self) -> bool:
        counts = (self.create, self.count, self.split, self.merge)
        return any(each is not None for each in counts) or self.hand_over or self.thaw


@dataclass(frozen=True, slots=True)
class Read:
    """The table, and what bears on its hand-over."""

    found: ConfigMap | None
    table: SlotTable | None
    open_by_slot: Mapping[int, int]
    confirmed: Mapping[int, int]
    supervisors: Mapping[int, str]
    """By partition, the holder of its supervisors' Lease; partitions without a live supervisor are absent."""
    missing: Mapping[int, str]
    """By partition, why it has no supervisor."""

    def waits(self, table: SlotTable, *, force: bool) -> list[str]:
        """What a hand-over of this table has to wait for. `force`: not for supervisors of receiving partitions."""
        waits = hand_over_waits_for(table, self.confirmed, self.open_by_slot)
        return waits if force else [*waits, *self.without_supervisor(table)]

    def without_supervisor(self, table: SlotTable) -> list[str]:
        """A sentence for each partition that receives slots and has no supervisor to assign their objects."""
        receiving = sorted({each.to for each in table.frozen if each.to is not None})
        return [
            f"partition {each} has no supervisor: {self.missing[each]}" for each in receiving if each in self.missing
        ]


def partitions(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The ConfigMap, as --partition-table names it.")],
    file: OptionalFileOption = None,
    resource: ResourceOption = None,
    pool: PoolOption = None,
    create: Annotated[int | None, typer.Option(min=1, max=SLOTS, help="Make the table, with so many.")] = None,
    count: Annotated[int | None, typer.Option(min=1, max=SLOTS, help="Change to so many, moving the least.")] = None,
    split_: Annotated[int | None, typer.Option("--split", min=0, help="Give half of this one's slots away.")] = None,
    into: Annotated[int | None, typer.Option(min=0, help="To which; default of a split: the first free.")] = None,
    merge: Annotated[int | None, typer.Option(min=0, help="Give all slots of this one to --into.")] = None,
    hand_over: Annotated[bool, typer.Option("--hand-over", help="Give frozen slots to their new owners.")] = False,
    thaw: Annotated[bool, typer.Option("--thaw", help="Leave frozen slots with their owners after all.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Give slots also to a partition that has no running supervisor.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what the table would be; write nothing.")] = False,
    by: Annotated[
        PartitionBy | None, typer.Option(help="What of an object is hashed; default: as the file says, or uid.")
    ] = None,
    installation: LeaseNamespaceOption = "situate",
    assignments: SetOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show which partition has how many slots, or change that in two versions: freeze, then hand over.

    A partition receives slots only while its supervisor holds its Lease. Exits with 1 if a change is refused or has to
    wait, and names the reason.
    """
    with mendable_failures():
        change = Change(create, count, split_, into, merge, hand_over, thaw)
        change.check()
        settings = entry_of_table(table, file, assignments, resource, pool)
        where = (settings.leader_elect_namespace or installation, table)
        hashed = by or PartitionBy(settings.partition_by)
        connection = find_connection(kubeconfig, context)
        read, after, refused = asyncio.run(
            _done(connection, settings, where, hashed, change, dry_run=dry_run, force=force)
        )
    for each in refused:
        complain(f"{each}; objects of the slots would wait for one")
    if refused:
        complain(_next_step(settings, table))
        raise typer.Exit(ExitCode.NO)
    _show(read, after, output, dry_run=dry_run, force=force)
    if change.hand_over and after is None and read.table is not None and read.waits(read.table, force=force):
        raise typer.Exit(ExitCode.NO)


def _next_step(settings: ShardSettings, table: str) -> str:
    return (
        f"nothing was written: add an entry for {settings.resource} with partitionTable {table} and that partition to "
        "the configuration, apply the output of `situate manifests sharding`, and repeat; or repeat with --force"
    )


async def _done(
    connection: Connection,
    settings: ShardSettings,
    where: tuple[str, str],
    by: PartitionBy,
    change: Change,
    *,
    dry_run: bool,
    force: bool,
) -> tuple[Read, SlotTable | None, list[str]]:
    """What was there, the table that has been written (None: nothing was), and why a change is refused."""
    client = connect(connection, random.Random())
    try:
        read = await _read(client, settings, where, by)
        if not change.asked:
            table_of(read.found, where[1])
            return read, None, []
        after = _changed(read, where[1], change, force=force)
        if after is None or after == read.table:
            return read, None, []
        read = await _with_supervisors(client, settings, where[0], read, after)
        if not force and (refused := read.without_supervisor(after)):
            return read, None, refused
        if not dry_run:
            await _write(client, where, read.found, after)
        return read, after, []
    finally:
        await client.close()


async def _read(client: Client, settings: ShardSettings, where: tuple[str, str], by: PartitionBy) -> Read:
    namespace, name = where
    try:
        found = await client.get(CONFIGMAPS, name, namespace)
    except NotFound:
        return Read(None, None, {}, {}, {}, {})
    table = table_of(found, name)
    served = await required(settings, client)
    open_by_slot: Counter[int] = Counter()
    for each in (await client.list_all(served.resource, settings.namespace)).items:
        view = view_of(each.content, settings.paths())
        if not view.completed and view.holder is not None:
            open_by_slot[slot_of(hash_of(view, by))] += 1
    return await _with_supervisors(client, settings, namespace, Read(found, table, open_by_slot, {}, {}, {}), table)


async def _with_supervisors(
    client: Client, settings: ShardSettings, namespace: str, read: Read, table: SlotTable
) -> Read:
    """Adds what the supervisors of the table's partitions say in their Leases."""
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
    return replace(read, confirmed=confirmed_versions(leases), supervisors=supervisors, missing=missing)


def _changed(read: Read, name: str, change: Change, *, force: bool) -> SlotTable | None:
    """The next version; None where it has to wait. Raises `WrongInput`."""
    if change.create is not None:
        if read.found is not None:
            raise WrongInput(f"ConfigMap {name} is there already; --count {change.create} changes it")
        return even_table(change.create)
    table = table_of(read.found, name)
    try:
        if change.hand_over:
            return None if read.waits(table, force=force) else handed_over(table)
        if change.thaw:
            return thawed(table)
        return frozen(table, _owners(table, change, read.open_by_slot))
    except BadTable as bad:
        raise WrongInput(str(bad)) from None


def _owners(table: SlotTable, change: Change, open_by_slot: Mapping[int, int]) -> Sequence[int]:
    owners = table.owners()
    if change.split is not None:
        return split(owners, change.split, _free(owners) if change.into is None else change.into)
    if change.merge is not None:
        assert change.into is not None, "checked"
        return merged(owners, change.merge, change.into)
    assert change.count is not None, "something is asked for"
    present = sorted(set(owners))
    wanted = present[: change.count]
    while len(wanted) < change.count:
        wanted.append(_free(wanted))
    load = [open_by_slot.get(slot, 0) for slot in range(SLOTS)]
    return resized(owners, wanted, load if any(load) else None)


def _free(taken: Sequence[int]) -> int:
    return next(number for number in range(SLOTS + 1) if number not in set(taken))


async def _write(client: Client, where: tuple[str, str], found: ConfigMap | None, after: SlotTable) -> None:
    """Against the version that was read: of two changes at once one fails."""
    namespace, name = where
    if found is None:
        content = {"metadata": {"name": name, "namespace": namespace}, "data": {ENTRY: after.to_text()}}
        try:
            await client.create(CONFIGMAPS, content, namespace)
        except AlreadyExists:
            raise WrongInput(f"ConfigMap {namespace}/{name} has just been made by somebody else; look again") from None
        return
    version = {"resourceVersion": found.metadata.resource_version}
    try:
        await client.patch(
            CONFIGMAPS, name, MergePatch({"metadata": version, "data": {ENTRY: after.to_text()}}), namespace
        )
    except Conflict:
        raise WrongInput(f"ConfigMap {namespace}/{name} has just been changed by somebody else; look again") from None


def _show(read: Read, after: SlotTable | None, output: Format, *, dry_run: bool, force: bool) -> None:
    table = after or read.table
    assert table is not None, "shown after it was read or made"
    waits = read.waits(table, force=force)
    rows = [_row(table, partition, read) for partition in table.partitions]
    if output in (Format.JSON, Format.YAML):
        data: dict[str, Any] = {
            "version": table.version,
            "written": after is not None and not dry_run,
            "partitions": [dict(zip((column.title for column in _COLUMNS), row, strict=True)) for row in rows],
            "waits": waits,
        }
        print_data(data, output)
        return
    done = "" if after is None else " (not written)" if dry_run else " (written now)"
    say(f"version {table.version}{done}: {len(table.partitions)} partitions")
    print_table(_COLUMNS, [tuple("-" if each is None else each for each in row) for row in rows], output)
    for wait in waits:
        complain(f"the hand-over waits: {wait}")
    for partition, problem in sorted(read.missing.items()):
        if any(each.partition == partition for each in table.ranges):
            complain(f"partition {partition} has no supervisor, so its objects wait: {problem}")
    if table.frozen and not waits:
        say("every frozen slot may be handed over: --hand-over")


def _row(table: SlotTable, partition: int, read: Read) -> tuple[int | str | None, ...]:
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
