"""How long records stay, by what became of their objects, and the walk that deletes those whose time is over.

Age alone deletes records: never a store that is full, slow or refuses a write. So the walk begins with `check`, and
deletes nothing from an archive that cannot be written to. What cannot be read is never deleted.
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
    """Ages at which records go, counted from when they were archived; None: never. Equality deletes, as with TTLs."""

    successful: timedelta | None = None
    failed: timedelta | None = None
    unfinished: timedelta | None = None
    """Of objects that were deleted before they completed."""

    def __post_init__(self) -> None:
        """`ValueError`."""
        for name in self.__slots__:
            age = getattr(self, name)
            if age is not None and age <= timedelta(0):
                raise ValueError(f"retention.{name}: found {age}, allowed: more than nothing, or none for ever")

    def of(self, record: Record) -> timedelta | None:
        match record.successful:
            case True:
                return self.successful
            case False:
                return self.failed
            case None:
                return self.unfinished

    def is_over(self, record: Record, now: datetime) -> bool:
        age = self.of(record)
        return age is not None and now - record.archived_at >= age

    def shortest(self) -> timedelta | None:
        return min((age for age in (self.successful, self.failed, self.unfinished) if age is not None), default=None)


@dataclass(frozen=True, slots=True)
class Deletion:
    """For the audit: which record is about to go, and by which rule."""

    subject: Subject
    digest: str
    successful: bool | None
    archived_at: datetime
    retention: timedelta
    at: datetime


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a walk did."""

    deleted: int = 0
    looked_at: int = 0
    """Records old enough for the shortest of the ages."""
    corrupt: tuple[BadRecord, ...] = ()
    """Left alone."""


Audit = Callable[[Deletion], Awaitable[None]]
"""Awaited before each deletion; if it fails, nothing is deleted any more."""


async def prune(
    archiver: Archiver,
    retention: Retention,
    now: datetime,
    audit: Audit,
    *,
    query: Query | None = None,
    dry_run: bool = False,
    size: int = PAGE,
) -> Pruned:
    """Delete the records of the query whose time is over. Safe to repeat and to break off.

    With `dry_run` nothing is deleted, and the audit is told what would be. Failures of the archive come as they are.
    """
    shortest = retention.shortest()
    if shortest is None:
        return Pruned()
    await archiver.check()
    wanted = Query() if query is None else query
    try:
        before = now - shortest + timedelta.resolution  # the bound excludes itself, and equality deletes
    except OverflowError:
        return Pruned()  # nothing was archived before time began
    if wanted.archived_before is None or wanted.archived_before > before:
        wanted = replace(wanted, archived_before=before)
    done = Pruned()
    async for page in pages(archiver, wanted, size):
        done = replace(done, looked_at=done.looked_at + len(page.records), corrupt=(*done.corrupt, *page.corrupt))
        for record in page.records:
            age = retention.of(record)
            if age is None or not retention.is_over(record, now) or not await _is_still(archiver, record):
                continue
            await audit(Deletion(record.subject, record.digest, record.successful, record.archived_at, age, now))
            if not dry_run:
                await archiver.delete(record.subject.key)
            done = replace(done, deleted=done.deleted + 1)
    return done


async def _is_still(archiver: Archiver, record: Record) -> bool:
    """Whether it has not been put anew since the page was read, with a new age, nor spoilt."""
    try:
        return await archiver.get(record.subject.key) == record
    except (NotArchived, ArchiveCorrupt):
        return False
