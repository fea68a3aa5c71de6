"""Pages of a search in files. Only the records of the page are read whole.

The order of a search begins with the time of archiving, and the first bytes of a file contain it. The search reads the
first bytes of all files, and then whole files, newest first, until the page is full.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from situate.archive.records.query import Page, Query, matches, page_of, position_of
from situate.archive.records.record import BadRecord, Record
from situate.archive.stores.folder.tree import files_in, leaves, open_leaf, read_archiving_time, read_record


@dataclass(frozen=True, slots=True)
class _File:
    way: tuple[str, str, str]
    name: str
    archived_at: datetime


def search_in_order(root: int, query: Query, limit: int) -> Page:
    """Return the page as `page_of` does for all records.

    An unreadable record is reported on the page of the time in its first bytes. If they contain no time, it is reported
    on the first page.
    """
    found: list[Record] = []
    lost: list[BadRecord] = []
    misplaced: list[tuple[datetime, BadRecord]] = []
    for file in _files_newest_first(root, query, found, lost):
        if len(found) > limit and file.archived_at < _page_end(found, limit):
            break
        with open_leaf(root, file.way) as leaf:
            try:
                record = None if leaf is None else read_record(leaf, file.name)
            except BadRecord as error:
                misplaced.append((file.archived_at, error))
                continue
        if record is not None and _matches_page(record, query):
            found.append(record)
    page = page_of(found, query, lost)
    last = page.records[-1].archived_at if page.continue_ else None
    before = None if query.after is None else query.after.archived_at
    here = [
        error
        for archived_at, error in misplaced
        if (last is None or archived_at >= last) and (before is None or archived_at < before)
    ]
    return Page(page.records, page.continue_, (*page.corrupt, *here))


def _files_newest_first(root: int, query: Query, found: list[Record], lost: list[BadRecord]) -> list[_File]:
    """Return the files that may match and are not before the page. Files without a time in the first bytes are read."""
    files = []
    for leaf in leaves(root, query, lost):
        for name in files_in(leaf, query):
            archived_at = read_archiving_time(leaf, name)
            if archived_at is not None:
                files.append(_File(leaf.way, name, archived_at))
                continue
            try:
                record = read_record(leaf, name)
            except BadRecord as error:
                lost.append(error)
                continue
            if record is not None and _matches_page(record, query):
                found.append(record)
    if query.after is not None:
        start = query.after.archived_at
        files = [file for file in files if file.archived_at <= start]
    return sorted(files, key=lambda file: file.archived_at, reverse=True)


def _matches_page(record: Record, query: Query) -> bool:
    return matches(record, query) and (query.after is None or position_of(record).order > query.after.order)


def _page_end(found: list[Record], limit: int) -> datetime:
    """Return the archiving time of the first record after the page, as far as known."""
    return sorted((record.archived_at for record in found), reverse=True)[limit]
