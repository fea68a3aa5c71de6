"""Find the supervisor that a command is about: an entry of the file's `sharding:` section, or flags without a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from situate.cli.input.configuration import load, sharding_entries
from situate.cli.read_cluster.where import Where
from situate.cli.terminal.failures import WrongInput
from situate.objects.settings.options import BadOptions
from situate.sharding.supervisor.controller.config.section import ShardSettings


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of a command that say which supervisor it is about, and where its cluster is."""

    file: Path | None
    assignments: Sequence[str]
    resource: str | None
    pool: str | None
    partition: str | None
    executor_namespace: str | None
    installation: str
    """The namespace of the supervisors' Lease and of the table of partitions."""
    where: Where

    @classmethod
    def of(
        cls,
        file: Path | None,
        assignments: Iterable[str] | None,
        resource: str | None,
        where: Where,
        *,
        pool: str | None = None,
        partition: str | None = None,
        executor_namespace: str | None = None,
        installation: str = "situate",
    ) -> Asked:
        given = tuple(assignments or ())
        return cls(file, given, resource, pool, partition, executor_namespace, installation, where)

    def entry(self) -> ShardSettings:
        """The one entry that is meant. Raises `WrongInput` and `BadConfiguration`."""
        return entry_of(self.file, self.assignments, self.resource, self.pool, self.partition, self.executor_namespace)

    def entries(self) -> list[ShardSettings]:
        """All that are meant, at least one. Raises as `entry`."""
        return entries_of(
            self.file, self.assignments, self.resource, self.pool, self.partition, self.executor_namespace
        )

    def entry_of_table(self, table: str) -> ShardSettings:
        """One of those that share a table of partitions. Raises as `entry`."""
        return entry_of_table(table, self.file, self.assignments, self.resource, self.pool)


def entry_of(
    file: Path | None,
    assignments: Sequence[str] | None,
    resource: str | None,
    pool: str | None = None,
    partition: str | None = None,
    executor_namespace: str | None = None,
) -> ShardSettings:
    """The one that flags and file mean. Raises `WrongInput` and `BadConfiguration`."""
    meant = entries_of(file, assignments, resource, pool, partition, executor_namespace)
    if len(meant) == 1:
        return meant[0]
    listed = "; ".join(each.name for each in meant)
    flags = "--partition" if only_partitions_differ(meant) else "--resource, --pool"
    raise WrongInput(f"{file}: several entries of sharding are meant; say which by {flags}: {listed}")


def only_partitions_differ(entries: Sequence[ShardSettings]) -> bool:
    """Whether the entries are the partitions of one resource."""
    alike = {(each.resource, each.pool, each.namespace, each.partition_table) for each in entries}
    return len(alike) == 1 and all(each.partition is not None for each in entries)


def entries_of(
    file: Path | None,
    assignments: Sequence[str] | None,
    resource: str | None,
    pool: str | None = None,
    partition: str | None = None,
    executor_namespace: str | None = None,
) -> list[ShardSettings]:
    """All that flags and file mean, at least one. Raises as `entry_of`."""
    given = {
        "resource": resource,
        "pool": pool,
        "partition": partition,
        "executorNamespace": executor_namespace,
    }
    known = {key: value for key, value in given.items() if value is not None}
    if file is None:
        return [_of_flags(known, assignments)]
    entries = sharding_entries(load(file, assignments or ()))
    fields = {"executorNamespace": "executor_namespace"}
    meant = [
        each for each in entries if all(getattr(each, fields.get(key, key)) == value for key, value in known.items())
    ]
    if not meant:
        listed = "; ".join(each.name for each in entries) or "none"
        raise WrongInput(f"{file}: no entry of sharding is meant by the flags; it has: {listed}")
    return meant


def entry_of_table(
    table: str, file: Path | None, assignments: Sequence[str] | None, resource: str | None, pool: str | None
) -> ShardSettings:
    """One of those that share a table of partitions: they differ in their partition alone. As `entry_of`."""
    known = {key: value for key, value in {"resource": resource, "pool": pool}.items() if value is not None}
    if file is None:
        return _of_flags(known, assignments)
    entries = [each for each in sharding_entries(load(file, assignments or ())) if each.partition_table is not None]
    meant = [
        each
        for each in entries
        if each.partition_table == table and all(getattr(each, key) == value for key, value in known.items())
    ]
    if not meant:
        listed = "; ".join(f"{each.partition_table} ({each.name})" for each in entries) or "none"
        raise WrongInput(f"{file}: no entry of sharding with partitionTable {table} is meant; tables there: {listed}")
    if len({(each.resource, each.pool) for each in meant}) > 1:
        listed = "; ".join(each.name for each in meant)
        raise WrongInput(f"{file}: several entries of sharding are meant; say which by --resource, --pool: {listed}")
    return meant[0]


def _of_flags(known: Mapping[str, str], assignments: Sequence[str] | None) -> ShardSettings:
    if "resource" not in known:
        raise WrongInput("name the objects by --resource GROUP/VERSION/PLURAL, or the configuration by -f")
    if assignments:
        raise WrongInput(f"--set {assignments[0]}: it changes what a configuration says; name one by -f")
    try:
        return ShardSettings.of(known)
    except BadOptions as bad:
        raise WrongInput("\n".join(str(replace(each, path=_flag(each.path))) for each in bad.mistakes)) from None


def _flag(key: str) -> str:
    """Of a key of the file."""
    return "--" + re.sub("[A-Z]", lambda capital: f"-{capital[0].lower()}", key)
