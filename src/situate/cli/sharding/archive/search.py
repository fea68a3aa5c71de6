"""Print archived records, the newest first."""

from __future__ import annotations

from typing import Any

from situate.archive.options import ArchiveOptions
from situate.archive.records.query import Page, Query
from situate.cli.sharding.archive.archive_access import archive_options, open_archive, run_archive_work
from situate.cli.sharding.archive.options import Conditions
from situate.cli.sharding.archive.record_output import COLUMNS, record_data, record_rows, unreadable_data
from situate.cli.sharding.archive.record_query import build_query
from situate.cli.terminal.failures import report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import print_data, print_table
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_error, print_line


def show(
    conditions: Conditions,
    *,
    limit: int,
    continue_: str,
    whole: bool,
    archive_url: str | None,
    archive_url_file: str | None,
    output: Format,
) -> None:
    """Print the records; if `whole`, with the objects in them."""
    with report_failures(), progress("searching the archive"):
        options = archive_options(archive_url=archive_url, archive_url_file=archive_url_file)
        page = run_archive_work(_search(options, build_query(conditions, limit=limit or None, continue_=continue_)))
    if output in (Format.JSON, Format.YAML):
        told: dict[str, Any] = {
            "records": [record_data(record, whole=whole) for record in page.records],
            "continue": page.continue_,
            "unreadable": unreadable_data(page.corrupt),
        }
        print_data(told, output)
        return
    for bad in page.corrupt:
        print_error(str(bad))
    if not page.records:
        print_line(f"no {'other ' if page.corrupt else ''}record matches")
        return
    print_table(COLUMNS, record_rows(page.records), output)
    if page.continue_:
        print_line(f"next page: --continue {page.continue_}")


async def _search(options: ArchiveOptions, query: Query) -> Page:
    async with open_archive(options) as archiver:
        return await archiver.search(query)
