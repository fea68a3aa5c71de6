"""Find the supervisor that a command is about: an entry of the file's `sharding:` section, or flags without a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from situate.cli.input.configuration import load_configuration, sharding_entries
from situate.cli.read_cluster.cluster_source import ClusterSource
from situate.cli.terminal.failures import WrongInput
from situate.objects.settings.options import BadOptions
from situate.sharding.supervisor.controller.config.section import ShardSettings


@dataclass(frozen=True, slots=True)
class SupervisorOptions:
    """Options of a command that select the supervisor and the cluster."""

    file: Path | None
    assignments: Sequence[str]
    resource: str | None
    pool: str | None
    partition: str | None
    executor_namespace: str | None
    installation: str
    """Namespace of the supervisors' Lease and of the partition table."""
    source: ClusterSource

    @classmethod
    def create(
        cls,
        file: Path | None,
        assignments: Iterable[str] | None,
        resource: str | None,
        where: ClusterSource,
        *,
        pool: str | None = None,
        partition: str | None = None,
        executor_namespace: str | None = None,
        installation: str = "situate",
    ) -> SupervisorOptions:
        given = tuple(assignments or ())
        return cls(file, given, resource, pool, partition, executor_namespace, installation, where)

    def entry(self) -> ShardSettings:
        """Return the only selected entry. Raises `WrongInput` and `BadConfiguration`."""
        return select_entry(
            self.file, self.assignments, self.resource, self.pool, self.partition, self.executor_namespace
        )

    def entries(self) -> list[ShardSettings]:
        """Return all selected entries, at least one. Raises the same errors as `entry`."""
        return select_entries(
            self.file, self.assignments, self.resource, self.pool, self.partition, self.executor_namespace
        )

    def table_entry(self, table: str) -> ShardSettings:
        """Return one of the entries that share a partition table. Raises the same errors as `entry`."""
        return select_table_entry(table, self.file, self.assignments, self.resource, self.pool)


def select_entry(
    file: Path | None,
    assignments: Sequence[str] | None,
    resource: str | None,
    pool: str | None = None,
    partition: str | None = None,
    executor_namespace: str | None = None,
) -> ShardSettings:
    """Return the only entry that flags and file select. Raises `WrongInput` and `BadConfiguration`."""
    meant = select_entries(file, assignments, resource, pool, partition, executor_namespace)
    if len(meant) == 1:
        return meant[0]
    listed = "; ".join(each.name for each in meant)
    flags = "--partition" if only_partitions_differ(meant) else "--resource, --pool"
    raise WrongInput(f"{file}: the flags match several entries of sharding; select one with {flags}: {listed}")


def only_partitions_differ(entries: Sequence[ShardSettings]) -> bool:
    """Return whether the entries are the partitions of one resource."""
    alike = {(each.resource, each.pool, each.namespace, each.partition_table) for each in entries}
    return len(alike) == 1 and all(each.partition is not None for each in entries)


def select_entries(
    file: Path | None,
    assignments: Sequence[str] | None,
    resource: str | None,
    pool: str | None = None,
    partition: str | None = None,
    executor_namespace: str | None = None,
) -> list[ShardSettings]:
    """Return all entries that flags and file select, at least one. Raises the same errors as `select_entry`."""
    given = {
        "resource": resource,
        "pool": pool,
        "partition": partition,
        "executorNamespace": executor_namespace,
    }
    known = {key: value for key, value in given.items() if value is not None}
    if file is None:
        return [_entry_from_flags(known, assignments)]
    entries = sharding_entries(load_configuration(file, assignments or ()))
    fields = {"executorNamespace": "executor_namespace"}
    meant = [
        each for each in entries if all(getattr(each, fields.get(key, key)) == value for key, value in known.items())
    ]
    if not meant:
        listed = "; ".join(each.name for each in entries) or "none"
        raise WrongInput(f"{file}: the flags match no entry of sharding; entries: {listed}")
    return meant


def select_table_entry(
    table: str, file: Path | None, assignments: Sequence[str] | None, resource: str | None, pool: str | None
) -> ShardSettings:
    """Return one of the entries that share a partition table. They differ only in their partition.

    Raises the same errors as `select_entry`.
    """
    known = {key: value for key, value in {"resource": resource, "pool": pool}.items() if value is not None}
    if file is None:
        return _entry_from_flags(known, assignments)
    entries = [
        each
        for each in sharding_entries(load_configuration(file, assignments or ()))
        if each.partition_table is not None
    ]
    meant = [
        each
        for each in entries
        if each.partition_table == table and all(getattr(each, key) == value for key, value in known.items())
    ]
    if not meant:
        listed = "; ".join(f"{each.partition_table} ({each.name})" for each in entries) or "none"
        raise WrongInput(f"{file}: the flags match no entry of sharding with partitionTable {table}; tables: {listed}")
    if len({(each.resource, each.pool) for each in meant}) > 1:
        listed = "; ".join(each.name for each in meant)
        raise WrongInput(
            f"{file}: the flags match several entries of sharding; select one with --resource, --pool: {listed}"
        )
    return meant[0]


def _entry_from_flags(known: Mapping[str, str], assignments: Sequence[str] | None) -> ShardSettings:
    if "resource" not in known:
        raise WrongInput("no objects are named: give --resource GROUP/VERSION/PLURAL, or a configuration with -f")
    if assignments:
        raise WrongInput(f"--set {assignments[0]}: --set needs a configuration; name its file with -f")
    try:
        return ShardSettings.parse_entry(known)
    except BadOptions as bad:
        raise WrongInput("\n".join(str(replace(each, path=_flag(each.path))) for each in bad.mistakes)) from None


def _flag(key: str) -> str:
    """Return the flag for a key of the file."""
    return "--" + re.sub("[A-Z]", lambda capital: f"-{capital[0].lower()}", key)
