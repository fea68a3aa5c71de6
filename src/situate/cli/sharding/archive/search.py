"""`situate sharding archive search`: what is archived, newest first."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from situate.archive.options import ArchiveOptions
from situate.archive.query import Page, Query
from situate.cli.failures import mendable_failures
from situate.cli.formats import Format
from situate.cli.options import OutputOption
from situate.cli.output import print_data, print_table
from situate.cli.progress import progress
from situate.cli.sharding.archive.opened import UrlFileOption, UrlOption, archive_options, opened, run
from situate.cli.sharding.archive.selecting import Conditions, with_conditions
from situate.cli.sharding.archive.shown import COLUMNS, bad_data, data, rows
from situate.cli.streams import complain, say


@with_conditions
def search(
    conditions: Conditions,
    limit: Annotated[int, typer.Option(min=0, help="Records of a page; 0: all at once.")] = 500,
    continue_: Annotated[
        str, typer.Option("--continue", metavar="TOKEN", help="The next page, as the one before named it.")
    ] = "",
    objects: Annotated[bool, typer.Option("--objects", help="With -o json or yaml: with the objects in them.")] = False,
    archive_url: UrlOption = None,
    archive_url_file: UrlFileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """List what is archived, newest first. What cannot be read is named beside the rest."""
    with mendable_failures(), progress("searching the archive"):
        options = archive_options(archive_url=archive_url, archive_url_file=archive_url_file)
        page = run(_search(options, conditions.query(limit=limit or None, continue_=continue_)))
    if output in (Format.JSON, Format.YAML):
        told: dict[str, Any] = {
            "records": [data(record, whole=objects) for record in page.records],
            "continue": page.continue_,
            "unreadable": bad_data(page.corrupt),
        }
        print_data(told, output)
        return
    for bad in page.corrupt:
        complain(str(bad))
    if not page.records:
        say(f"nothing {'else ' if page.corrupt else ''}of that kind is archived")
        return
    print_table(COLUMNS, rows(page.records), output)
    if page.continue_:
        say(f"there is more: --continue {page.continue_}")


async def _search(options: ArchiveOptions, query: Query) -> Page:
    async with opened(options) as archiver:
        return await archiver.search(query)
