"""`situate sharding archive get`: one archived object, as it was."""

from __future__ import annotations

from typing import Annotated

import typer

from situate.archive.options import ArchiveOptions
from situate.archive.record import ByName, ByUid, Record
from situate.cli.failures import mendable_failures
from situate.cli.formats import Format
from situate.cli.options import OutputOption
from situate.cli.output import print_data, print_table
from situate.cli.progress import progress
from situate.cli.sharding.archive.named import KindArgument, NameArgument, UidOption, key_of
from situate.cli.sharding.archive.opened import UrlFileOption, UrlOption, archive_options, opened, run
from situate.cli.sharding.archive.shown import COLUMNS, data, rows


def get(
    kind: KindArgument,
    name: NameArgument = None,
    uid: UidOption = None,
    record: Annotated[
        bool, typer.Option("--record", help="With -o json or yaml: the whole record, with the object in it.")
    ] = False,
    archive_url: UrlOption = None,
    archive_url_file: UrlFileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show one archived object; -o json and yaml print it as it was. Exits with 1 if there is none."""
    with mendable_failures(), progress("reading the archive"):
        options = archive_options(archive_url=archive_url, archive_url_file=archive_url_file)
        found = run(_get(options, key_of(kind, name, uid)))
    if output in (Format.JSON, Format.YAML):
        print_data(data(found, whole=True) if record else found.object, output)
    else:
        print_table(COLUMNS, rows([found]), output)


async def _get(options: ArchiveOptions, key: ByName | ByUid) -> Record:
    async with opened(options) as archiver:
        return await archiver.get(key)
