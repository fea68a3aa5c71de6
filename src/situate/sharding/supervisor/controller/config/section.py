"""Read the `sharding:` section of the configuration file: a list with one entry per supervisor.

An entry has the keys of `SupervisorOptions`, and the keys of `ArchiveOptions` below `archive`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from msgspec import Meta

from situate.archive.options import ArchiveOptions, hide_url, secret_mistakes
from situate.objects.settings.options import BadOptions
from situate.objects.settings.section import Mistake, format_value, parse_section
from situate.sharding.supervisor.controller.config.options import SupervisorOptions


class ShardSettings(SupervisorOptions, frozen=True, kw_only=True, rename="camel"):
    """One supervisor: its options, and the options of its archive."""

    archive: Annotated[
        ArchiveOptions, Meta(description="Archive of completed objects: its URL, and the time of archiving.")
    ] = ArchiveOptions()

    def mistakes(self) -> Iterable[Mistake]:
        """Yield the mistakes between fields, and passwords in the file: many people can read it."""
        yield from super().mistakes()
        yield from (replace(each, path=f"archive.{each.path}") for each in secret_mistakes(self.archive))

    @classmethod
    def parse_entry(cls, options: Mapping[str, Any]) -> ShardSettings:
        """Parse one entry. Raises `BadOptions`."""
        made, mistakes = parse_section(dict(options), cls)
        if made is None:
            raise BadOptions(map(hide_url, mistakes))
        return made

    @property
    def archives(self) -> bool:
        """Return whether completed objects are ever deleted."""
        archive = self.archive
        return archive.archive_url is not None or archive.archive_url_file is not None or archive.delete_without_archive

    @property
    def lease_name(self) -> str:
        """Return the name of the supervisors' Lease."""
        group, _, plural = self.group_version_plural
        part = f".{self.partition_name}" if self.partition_name else ""
        return f"{plural}.{group}.{self.pool}{part}.supervisor"

    @property
    def name(self) -> str:
        """Return the display name: resource, pool and partition."""
        part = f" partition {self.partition}" if self.partition is not None else ""
        return f"{self.resource} pool {self.pool}{part}"


def overlap_mistakes(entries: Sequence[ShardSettings]) -> Iterator[Mistake]:
    """Yield a mistake for each entry that shares objects with an earlier one.

    Each object needs exactly one supervisor: two supervisors would undo each other's work.
    """
    for number, entry in enumerate(entries):
        first = next((index for index, other in enumerate(entries[:number]) if _overlap(entry, other)), None)
        if first is not None:
            hint = f"sharding[{first}] covers some of the same objects; give each entry its own namespace or partition"
            yield Mistake(
                f"sharding[{number}].resource", format_value(entry.resource), "entries without common objects", hint
            )


def hide_secrets(mistakes: Iterable[Mistake]) -> tuple[Mistake, ...]:
    """Return the mistakes without the values of URLs, which may hold a password."""
    return tuple(hide_url(each) if each.path.startswith("sharding[") else each for each in mistakes)


def _overlap(one: ShardSettings, other: ShardSettings) -> bool:
    if one.group_version_plural[::2] != other.group_version_plural[::2]:
        return False
    if None not in (one.namespace, other.namespace) and one.namespace != other.namespace:
        return False
    split = (one.partition_table, _static_partition_count(one), one.partition_by) == (
        other.partition_table,
        _static_partition_count(other),
        other.partition_by,
    )
    return not (split and one.partition is not None and one.partition != other.partition)


def _static_partition_count(entry: ShardSettings) -> str:
    """Return the count of static partitions as text; empty without static partitions."""
    return (entry.partition or "").partition("/")[2]
