"""Print archived records, the newest first."""

from __future__ import annotations

from typing import Any

from situate.archive.options import ArchiveOptions
from situate.archive.records.query import Page, Query
from situate.cli.sharding.archive.archive_access import archive_options, open_archive, run_archive_work
from situate.cli.sharding.archive.options import ArchiveLocation, Conditions
from situate.cli.sharding.archive.record_output import COLUMNS, record_data, unreadable_data
from situate.cli.sharding.archive.record_query import build_query
from situate.cli.terminal.failures import report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import print_answer, print_items
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_line


def show(
    conditions: Conditions, archive: ArchiveLocation, output: Format, *, limit: int, continue_: str, whole: bool
) -> None:
    """Print the records; if `whole`, with the objects in them."""
    with report_failures(), progress("searching the archive"):
        options = archive_options(archive)
        page = run_archive_work(_search(options, build_query(conditions, limit=limit or None, continue_=continue_)))
    print_answer(output, lambda: _as_data(page, whole=whole), lambda: _print(page, output), map(str, page.corrupt))


def _as_data(page: Page, *, whole: bool) -> dict[str, Any]:
    return {
        "records": [record_data(record, whole=whole) for record in page.records],
        "continue": page.continue_,
        "unreadable": unreadable_data(page.corrupt),
    }


def _print(page: Page, output: Format) -> None:
    if not page.records:
        print_line(f"no {'other ' if page.corrupt else ''}record matches")
        return
    print_items(COLUMNS, page.records, output)
    if page.continue_:
        print_line(f"next page: --continue {page.continue_}")


async def _search(options: ArchiveOptions, query: Query) -> Page:
    async with open_archive(options) as archiver:
        return await archiver.search(query)
