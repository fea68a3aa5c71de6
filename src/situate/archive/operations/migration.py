"""Copy records of all kinds from one archive to another; each copy is read back and compared.

A copy can be restarted: it reads the records that already exist, and copies the rest. It may miss records that are put
into the source meanwhile. Configure the supervisors with the new archive, and then copy again until nothing is copied.
The source is never changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from situate.archive.concurrent_calls import gather_calls
from situate.archive.operations.walk import PAGE, pages
from situate.archive.protocol import ArchiveConflict, ArchiveCorrupt, Archiver, ArchiveRefused, NotArchived
from situate.archive.records.query import Query
from situate.archive.records.record import BadRecord, Record, Subject

_PARALLEL: Final = 8


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record that was not copied, and that a retry alone will not copy."""

    subject: Subject
    problem: str


@dataclass(frozen=True, slots=True)
class MigrationProgress:
    """The progress so far."""

    copied: int = 0
    """Copied, and read back equal."""
    present: int = 0
    """Already in the target, equal."""
    newer: int = 0
    """Already in the target, in a newer version or archived later."""
    failed: tuple[FailedRecord, ...] = ()
    corrupt: tuple[BadRecord, ...] = ()
    """Unreadable records of the source; not copied."""

    @property
    def complete(self) -> bool:
        """Whether the target has every record that was found in the source."""
        return not self.failed and not self.corrupt


class _CopyOutcome(Enum):
    COPIED = "copied"
    PRESENT = "present"
    NEWER = "newer"


def _ignore_progress(_: MigrationProgress) -> None:
    """Ignore the progress."""


async def migrate(
    source: Archiver,
    target: Archiver,
    *,
    query: Query | None = None,
    told: Callable[[MigrationProgress], None] = _ignore_progress,
    parallel: int = _PARALLEL,
    size: int = PAGE,
    dry_run: bool = False,
) -> MigrationProgress:
    """Copy the records of the query. `told` receives the progress after each page.

    With `dry_run`, nothing is put, and `copied` counts the records that would be copied.

    The permanent failure of one record does not stop the others. `ArchiveUnavailable` of either archive ends the copy:
    start again later.
    """
    turns = asyncio.Semaphore(parallel)

    async def copy(record: Record) -> _CopyOutcome | FailedRecord:
        async with turns:
            try:
                return await _copy_record(record, target, dry_run=dry_run)
            except (ArchiveRefused, ArchiveCorrupt, NotArchived) as error:
                return FailedRecord(record.subject, str(error))

    done = MigrationProgress()
    async for page in pages(source, Query() if query is None else query, size):
        results = await gather_calls(copy(record) for record in page.records)
        done = replace(
            done,
            copied=done.copied + results.count(_CopyOutcome.COPIED),
            present=done.present + results.count(_CopyOutcome.PRESENT),
            newer=done.newer + results.count(_CopyOutcome.NEWER),
            failed=(*done.failed, *(each for each in results if isinstance(each, FailedRecord))),
            corrupt=(*done.corrupt, *page.corrupt),
        )
        told(done)
    return done


async def _copy_record(record: Record, target: Archiver, *, dry_run: bool) -> _CopyOutcome | FailedRecord:
    key = record.subject.key
    try:
        stored = await target.get(key)
    except (NotArchived, ArchiveCorrupt):
        stored = None
    if stored == record:
        return _CopyOutcome.PRESENT
    if stored is not None and not _is_newer(record, stored):
        return _CopyOutcome.NEWER
    if dry_run:
        return _CopyOutcome.COPIED
    try:
        await target.put(record)
    except ArchiveConflict:
        return _CopyOutcome.NEWER
    if (stored := await target.get(key)) != record:
        return FailedRecord(
            record.subject, f"{key}: the target returned another record ({stored.digest}) than the copied one"
        )
    return _CopyOutcome.COPIED


def _is_newer(record: Record, stored: Record) -> bool:
    """Return whether the record is newer. For equal or incomparable versions, the later archiving time is newer."""
    if record.replaces(stored) and stored.replaces(record):
        return record.archived_at >= stored.archived_at
    return record.replaces(stored)
