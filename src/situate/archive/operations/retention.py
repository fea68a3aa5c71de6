"""Retention of records by outcome, and the function that deletes expired records.

Only age deletes records, never a store that is full, slow or refuses a write. `prune` therefore begins with `check`,
and deletes nothing from an archive that is not writable. Unreadable records are never deleted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from situate.archive.operations.walk import PAGE, pages
from situate.archive.protocol import ArchiveCorrupt, Archiver, NotArchived
from situate.archive.records.query import Query
from situate.archive.records.record import BadRecord, Record, Subject


@dataclass(frozen=True, slots=True)
class Retention:
    """Ages at which records are deleted, from archiving on; None: never. Equality deletes, as with TTLs."""

    successful: timedelta | None = None
    failed: timedelta | None = None
    unfinished: timedelta | None = None
    """For objects that were deleted before they completed."""

    def __post_init__(self) -> None:
        """Validate the ages. Raises `ValueError`."""
        for name in self.__slots__:
            age = getattr(self, name)
            if age is not None and age <= timedelta(0):
                raise ValueError(
                    f"retention.{name}: found {age}, allowed: a positive duration, or none to keep records for ever"
                )

    def retention_of(self, record: Record) -> timedelta | None:
        match record.successful:
            case True:
                return self.successful
            case False:
                return self.failed
            case None:
                return self.unfinished

    def is_over(self, record: Record, now: datetime) -> bool:
        age = self.retention_of(record)
        return age is not None and now - record.archived_at >= age

    def shortest(self) -> timedelta | None:
        return min((age for age in (self.successful, self.failed, self.unfinished) if age is not None), default=None)


@dataclass(frozen=True, slots=True)
class Deletion:
    """The audit entry of one deletion: the record, and the rule that deletes it."""

    subject: Subject
    digest: str
    successful: bool | None
    archived_at: datetime
    retention: timedelta
    at: datetime


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The result of pruning."""

    deleted: int = 0
    looked_at: int = 0
    """Records that are older than the shortest of the ages."""
    corrupt: tuple[BadRecord, ...] = ()
    """Unreadable records, which are not deleted."""


Audit = Callable[[Deletion], Awaitable[None]]
"""Awaited before each deletion. If it raises, nothing more is deleted."""


async def prune(
    archiver: Archiver,
    retention: Retention,
    now: datetime,
    audit: Audit,
    *,
    query: Query | None = None,
    dry_run: bool = False,
    size: int = PAGE,
) -> PruneResult:
    """Delete the expired records of the query. Safe to repeat and to interrupt.

    With `dry_run`, only the audit is called. Errors of the archive are passed on.
    """
    shortest = retention.shortest()
    if shortest is None:
        return PruneResult()
    await archiver.check()
    wanted = Query() if query is None else query
    try:
        before = now - shortest + timedelta.resolution  # the bound is exclusive, and equality deletes
    except OverflowError:
        return PruneResult()  # no record can be that old
    if wanted.archived_before is None or wanted.archived_before > before:
        wanted = replace(wanted, archived_before=before)
    done = PruneResult()
    async for page in pages(archiver, wanted, size):
        done = replace(done, looked_at=done.looked_at + len(page.records), corrupt=(*done.corrupt, *page.corrupt))
        for record in page.records:
            age = retention.retention_of(record)
            if age is None or not retention.is_over(record, now) or not await _is_unchanged(archiver, record):
                continue
            await audit(Deletion(record.subject, record.digest, record.successful, record.archived_at, age, now))
            if not dry_run:
                await archiver.delete(record.subject.key)
            done = replace(done, deleted=done.deleted + 1)
    return done


async def _is_unchanged(archiver: Archiver, record: Record) -> bool:
    """Return whether the record is unchanged since the page was read: not put again, and still readable."""
    try:
        return await archiver.get(record.subject.key) == record
    except (NotArchived, ArchiveCorrupt):
        return False
