"""Read all records of a query, page by page: for pruning, copying and verifying."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from situate.archive.protocol import Archiver
from situate.archive.records.query import Page, Query

PAGE: Final = 5000
"""Records per page. Archives of files and buckets read all their records for each page, so pages are large."""


async def pages(archiver: Archiver, query: Query, size: int = PAGE) -> AsyncIterator[Page]:
    """Yield the pages, newest first. A record that exists throughout, and is not put again, appears exactly once."""
    query = replace(query, limit=size)
    while True:
        page = await archiver.search(query)
        yield page
        if not page.continue_:
            return
        query = replace(query, continue_=page.continue_)
