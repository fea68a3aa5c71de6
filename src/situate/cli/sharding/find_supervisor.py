"""Find the supervisor that a command is about: an entry of the file's `sharding:` section, or flags without a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from situate.cli.input.configuration import load_configuration, sharding_entries
from situate.cli.sharding.options import SupervisorOptions
from situate.cli.terminal.failures import WrongInput
from situate.objects.settings.options import BadOptions
from situate.sharding.supervisor.controller.config.section import ShardSettings


def select_entry(given: SupervisorOptions) -> ShardSettings:
    """Return the only entry that flags and file select. Raises `WrongInput` and `BadConfiguration`."""
    meant = select_entries(given)
    if len(meant) == 1:
        return meant[0]
    flags = "--partition" if only_partitions_differ(meant) else "--resource, --pool"
    raise _several_entries_error(given, meant, flags)


def only_partitions_differ(entries: Sequence[ShardSettings]) -> bool:
    """Return whether the entries are the partitions of one resource."""
    alike = {(each.resource, each.pool, each.namespace, each.partition_table) for each in entries}
    return len(alike) == 1 and all(each.partition is not None for each in entries)


def select_entries(given: SupervisorOptions) -> list[ShardSettings]:
    """Return all entries that flags and file select, at least one. Raises the same errors as `select_entry`."""
    if given.file is None:
        return [_entry_from_flags(given)]
    entries = _file_entries(given)
    meant = _matching_entries(given, entries)
    if not meant:
        listed = "; ".join(each.name for each in entries) or "none"
        raise WrongInput(f"{given.file}: the flags match no entry of sharding; entries: {listed}")
    return meant


def select_table_entry(table: str, given: SupervisorOptions) -> ShardSettings:
    """Return one of the entries that share a partition table. They differ only in their partition.

    Raises the same errors as `select_entry`.
    """
    if given.file is None:
        return _entry_from_flags(given)
    entries = [each for each in _file_entries(given) if each.partition_table is not None]
    meant = [each for each in _matching_entries(given, entries) if each.partition_table == table]
    if not meant:
        listed = "; ".join(f"{each.partition_table} ({each.name})" for each in entries) or "none"
        raise WrongInput(
            f"{given.file}: the flags match no entry of sharding with partitionTable {table}; tables: {listed}"
        )
    if len({(each.resource, each.pool) for each in meant}) > 1:
        raise _several_entries_error(given, meant, "--resource, --pool")
    return meant[0]


def _file_entries(given: SupervisorOptions) -> tuple[ShardSettings, ...]:
    assert given.file is not None
    return sharding_entries(load_configuration(given.file, given.assignments or ()))


def _matching_entries(given: SupervisorOptions, entries: Sequence[ShardSettings]) -> list[ShardSettings]:
    known = _given_fields(given)
    return [each for each in entries if all(getattr(each, name) == value for name, value in known.items())]


def _given_fields(given: SupervisorOptions) -> Mapping[str, str]:
    """Return the fields of `ShardSettings` that flags give."""
    fields = {
        "resource": given.resource,
        "pool": given.pool,
        "partition": given.partition,
        "executor_namespace": given.executor_namespace,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _several_entries_error(given: SupervisorOptions, meant: Sequence[ShardSettings], flags: str) -> WrongInput:
    listed = "; ".join(each.name for each in meant)
    return WrongInput(f"{given.file}: the flags match several entries of sharding; select one with {flags}: {listed}")


def _entry_from_flags(given: SupervisorOptions) -> ShardSettings:
    if given.resource is None:
        raise WrongInput("no objects are named: give --resource GROUP/VERSION/PLURAL, or a configuration with -f")
    if given.assignments:
        raise WrongInput(f"--set {given.assignments[0]}: --set needs a configuration; name its file with -f")
    keys = {"executor_namespace": "executorNamespace"}
    try:
        return ShardSettings.parse_entry({keys.get(name, name): value for name, value in _given_fields(given).items()})
    except BadOptions as bad:
        raise WrongInput("\n".join(str(replace(each, path=_flag(each.path))) for each in bad.mistakes)) from None


def _flag(key: str) -> str:
    """Return the flag for a key of the file."""
    return "--" + re.sub("[A-Z]", lambda capital: f"-{capital[0].lower()}", key)
