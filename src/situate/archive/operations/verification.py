"""Verify an archive: read every record, and compute its digest again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from situate.archive.operations.walk import PAGE, pages
from situate.archive.protocol import Archiver
from situate.archive.records.query import Query
from situate.archive.records.record import BadRecord


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """The result of a verification."""

    whole: int = 0
    """Records whose digest, subject and object agree."""
    bad: tuple[BadRecord, ...] = ()
    """Each names the record and its problem."""


async def verify(archiver: Archiver, query: Query | None = None, *, size: int = PAGE) -> VerificationResult:
    """Read all records of the query. Unreadable records are reported, even if they may not match the query."""
    done = VerificationResult()
    async for page in pages(archiver, Query() if query is None else query, size):
        done = replace(done, whole=done.whole + len(page.records), bad=(*done.bad, *page.corrupt))
    return done
