"""`situate sharding archive migrate`: copies records from one archive into another, each read back and compared."""

from __future__ import annotations

from typing import Annotated

import typer

from situate.archive.migrating import Migrated
from situate.archive.migrating import migrate as migrated
from situate.archive.options import ArchiveOptions
from situate.archive.query import Query
from situate.cli.failures import ExitCode, mendable_failures
from situate.cli.formats import Format
from situate.cli.options import OutputOption
from situate.cli.output import print_data
from situate.cli.progress import progress
from situate.cli.sharding.archive.opened import archive_options, opened, run
from situate.cli.sharding.archive.selecting import Conditions, with_conditions
from situate.cli.sharding.archive.shown import bad_data
from situate.cli.streams import complain, say

_FROM, _TO = "from", "to"
_SECRET = "without a password in it. [env SITUATE_{}_ARCHIVE_URL, with]"  # noqa: S105 - a sentence of the help
_FILE = "A file that holds its URL. [env SITUATE_{}_ARCHIVE_URL_FILE]"


@with_conditions
def migrate(
    conditions: Conditions,
    from_url: Annotated[
        str | None, typer.Option("--from-archive-url", help=f"What is copied; {_SECRET.format('FROM')}")
    ] = None,
    from_file: Annotated[str | None, typer.Option("--from-archive-url-file", help=_FILE.format("FROM"))] = None,
    to_url: Annotated[
        str | None, typer.Option("--to-archive-url", help=f"Where it is copied to; {_SECRET.format('TO')}")
    ] = None,
    to_file: Annotated[str | None, typer.Option("--to-archive-url-file", help=_FILE.format("TO"))] = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Copy records between two archives of any kinds. The source is not changed; what is there already is not copied.

    Broken off, it is begun anew. Exits with 1 if something could not be copied.
    """
    with mendable_failures(), progress("copying records"):
        source = archive_options(_FROM, archive_url=from_url, archive_url_file=from_file)
        target = archive_options(_TO, archive_url=to_url, archive_url_file=to_file)
        done = run(_migrate(source, target, conditions.query()))
    if output in (Format.JSON, Format.YAML):
        failed = [{"record": str(each.subject.key), "problem": each.problem} for each in done.failed]
        told = {"copied": done.copied, "present": done.present, "newer": done.newer, "failed": failed}
        print_data({**told, "unreadable": bad_data(done.corrupt)}, output)
    else:
        for problem in (*(f"{each.subject.key}: {each.problem}" for each in done.failed), *map(str, done.corrupt)):
            complain(f"not copied: {problem}")
        say(f"{done.copied} records copied, {done.present} there already, {done.newer} there in a newer version")
    if not done.complete:
        raise typer.Exit(ExitCode.NO)


async def _migrate(source: ArchiveOptions, target: ArchiveOptions, query: Query) -> Migrated:
    async with opened(source, _FROM) as old, opened(target, _TO, may_be_new=True) as new:
        await new.check()  # one that cannot be written to is told of once, and not of each record
        return await migrated(old, new, query=query)
