"""All records of a query, page after page, for what looks at a whole archive: pruning, copying, checking."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from situate.archive.protocol import Archiver
from situate.archive.records.query import Page, Query

PAGE: Final = 5000
"""Records of a page. Archives of files and buckets read all that they hold for each page, so pages are large."""


async def pages(archiver: Archiver, query: Query, size: int = PAGE) -> AsyncIterator[Page]:
    """Newest first. Each record that is there from beginning to end, and is not put again, comes exactly once."""
    query = replace(query, limit=size)
    while True:
        page = await archiver.search(query)
        yield page
        if not page.continue_:
            return
        query = replace(query, continue_=page.continue_)
