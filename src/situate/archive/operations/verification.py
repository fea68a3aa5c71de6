"""Whether an archive still holds what was put: every record is read, and its digest made anew."""

from __future__ import annotations

from dataclasses import dataclass, replace

from situate.archive.operations.walk import PAGE, pages
from situate.archive.protocol import Archiver
from situate.archive.records.query import Query
from situate.archive.records.record import BadRecord


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found."""

    whole: int = 0
    """Records whose digest, subject and object agree."""
    bad: tuple[BadRecord, ...] = ()
    """Each names the record and what is wrong with it."""


async def verify(archiver: Archiver, query: Query | None = None, *, size: int = PAGE) -> Verified:
    """Reads all records of the query; what cannot be read may be outside of it and is told all the same."""
    done = Verified()
    async for page in pages(archiver, Query() if query is None else query, size):
        done = replace(done, whole=done.whole + len(page.records), bad=(*done.bad, *page.corrupt))
    return done
