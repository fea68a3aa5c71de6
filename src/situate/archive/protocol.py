"""What every archive can do, what it promises, and how it fails.

Promises of all stores alike, held by one suite of tests:
- One record for each (group, kind, UID), however often and from wherever it is put; equal names with other UIDs are
  other records.
- A put that has returned survives the end of this process and what the store itself survives. A put that failed or was
  cut off has stored the whole record or nothing: nobody ever reads a part.
- A put never replaces a record that holds a newer version of the object.
- What cannot be read is reported and keeps nobody from reading the rest.

Each message names the archive without its secrets, the record, and what to do next.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from situate.archive.records.query import Page, Query
from situate.archive.records.record import ByName, ByUid, Record


class ArchiveError(Exception):
    """The archive did not do what was asked."""

    retriable: ClassVar[bool] = False
    """Whether the same call may succeed later, with nothing changed."""


class NotArchived(ArchiveError):
    """There is no such record: an answer, never a failure of the store."""

    def __init__(self, key: ByUid | ByName) -> None:
        super().__init__(f"{key} is not in the archive")
        self.key = key


class ArchiveUnavailable(ArchiveError):
    """The store did not answer, or not in time, or has no room: whether a put was stored is not known."""

    retriable = True


class ArchiveRefused(ArchiveError):
    """The store will not do it, as often as it is asked: no permission, no such bucket, a record it cannot hold."""


class ArchiveTooLarge(ArchiveRefused):
    """The record is larger than the store takes."""


class ArchiveConflict(ArchiveError):
    """The store holds a newer version of the object: read the object anew before it is put again."""


class ArchiveCorrupt(ArchiveError):
    """The record is there and cannot be read: torn, garbage, or edited by hand, which its digest shows."""

    def __init__(self, record: str, path: str, problem: str) -> None:
        """As `BadRecord` has them: `record` is what the store calls it."""
        super().__init__(
            f"the archive's record {record} cannot be used: {path + ': ' if path else ''}{problem}; put it back from a "
            "copy, or delete it and archive the object again if it is still there"
        )
        self.record = record
        self.path = path
        self.problem = problem


class Archiver(Protocol):
    """A store of records. All of it may be called from many tasks at once; cancelling a call leaves no part behind.

    Every method may raise `ArchiveUnavailable` and `ArchiveRefused`.
    """

    async def put(self, record: Record) -> None:
        """Store it, in place of an older version of the same (group, kind, UID).

        Safe to repeat: the same record twice is one record. `ArchiveConflict` if the store holds a newer version;
        `ArchiveTooLarge`.
        """

    async def get(self, key: ByUid | ByName) -> Record:
        """The record as the store holds it now, read back and checked. `NotArchived`; `ArchiveCorrupt`."""

    async def search(self, query: Query) -> Page:
        """What `situate.archive.records.query.page_of` gives for the records of the store. No match: an empty page."""

    async def delete(self, key: ByUid) -> None:
        """Remove the record, readable or not. None there: done already."""

    async def check(self) -> None:
        """Whether the archive can be used: it is reached, is laid out as we do, and lets us write. Leaves no trace."""

    async def close(self) -> None:
        """Give back connections. Safe to repeat; the archiver is not used afterwards."""
