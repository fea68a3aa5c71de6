"""The protocol of archives: operations, guarantees and errors.

One test suite checks these guarantees for all stores:
- There is one record for each (group, kind, UID), for any number of puts from any process. Equal names with other UIDs
  are other records.
- A put that has returned survives the end of this process, and every failure that the store itself survives. A put that
  failed or was cut off has stored the whole record or nothing. No reader ever sees a part.
- A put never replaces a record that holds a newer version of the object.
- An unreadable record is reported, and does not prevent reads of the other records.

Each message names the archive without its secrets, the record, and the next step.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from situate.archive.records.query import Page, Query
from situate.archive.records.record import ByName, ByUid, Record


class ArchiveError(Exception):
    """The archive did not perform the operation."""

    retriable: ClassVar[bool] = False
    """Whether the same call may succeed later without any change."""


class NotArchived(ArchiveError):
    """The record does not exist. This is an answer, never a failure of the store."""

    def __init__(self, key: ByUid | ByName) -> None:
        super().__init__(f"{key} is not in the archive")
        self.key = key


class ArchiveUnavailable(ArchiveError):
    """The store gave no answer, answered too late, or has no space. It is unknown whether a put was stored."""

    retriable = True


class ArchiveRefused(ArchiveError):
    """The store refuses the operation permanently: no permission, no such bucket, a record it cannot hold."""


class ArchiveTooLarge(ArchiveRefused):
    """The record is larger than the store's limit."""


class ArchiveConflict(ArchiveError):
    """The store holds a newer version of the object. Read the object again before the next put."""


class ArchiveCorrupt(ArchiveError):
    """The record exists and cannot be read: torn, garbage, or edited by hand, as its digest shows."""

    def __init__(self, record: str, path: str, problem: str) -> None:
        """The arguments of `BadRecord`: `record` is the store's name for the record."""
        super().__init__(
            f"the archive's record {record} cannot be used: {path + ': ' if path else ''}{problem}; restore it from "
            "a copy, or delete it and archive the object again if the object still exists"
        )
        self.record = record
        self.path = path
        self.problem = problem


class Archiver(Protocol):
    """A store of records. Calls may run concurrently, and a cancelled call leaves no partial record.

    Every method may raise `ArchiveUnavailable` and `ArchiveRefused`.
    """

    async def put(self, record: Record) -> None:
        """Store the record; replace an older version of the same (group, kind, UID).

        Safe to repeat: the same record twice is one record. Raises `ArchiveConflict` if the store holds a newer
        version, and `ArchiveTooLarge`.
        """

    async def get(self, key: ByUid | ByName) -> Record:
        """Return the record as the store holds it now, verified. Raises `NotArchived` and `ArchiveCorrupt`."""

    async def search(self, query: Query) -> Page:
        """Return the page that `situate.archive.records.query.page_of` gives for all records. No match: an empty
        page.
        """

    async def delete(self, key: ByUid) -> None:
        """Delete the record, readable or not. Does nothing if it does not exist."""

    async def check(self) -> None:
        """Check that the archive is usable: reachable, with our layout, and writable. Leaves no trace."""

    async def close(self) -> None:
        """Close the connections. Safe to repeat; the archiver must not be used afterwards."""
