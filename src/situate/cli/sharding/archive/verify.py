"""Check that an archive still holds its records as they were stored."""

from __future__ import annotations

import typer

from situate.archive.operations.verification import VerificationResult
from situate.archive.operations.verification import verify as verified
from situate.archive.options import ArchiveOptions
from situate.archive.records.query import Query
from situate.cli.sharding.archive.archive_access import archive_options, open_archive, run_archive_work
from situate.cli.sharding.archive.options import Conditions
from situate.cli.sharding.archive.record_output import unreadable_data
from situate.cli.sharding.archive.record_query import build_query
from situate.cli.terminal.failures import ExitCode, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column, print_data, print_table
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_line

_COLUMNS = (Column("record"), Column("field"), Column("problem"))


def check(conditions: Conditions, *, archive_url: str | None, archive_url_file: str | None, output: Format) -> None:
    """Read the records and print how many are unchanged; exit with 1 if one has changed."""
    with report_failures(), progress("reading every record"):
        options = archive_options(archive_url=archive_url, archive_url_file=archive_url_file)
        done = run_archive_work(_verify(options, build_query(conditions)))
    if output in (Format.JSON, Format.YAML):
        print_data({"whole": done.whole, "unreadable": unreadable_data(done.bad)}, output)
    else:
        print_line(f"{done.whole} records are intact, {len(done.bad)} are not")
        if done.bad:
            print_table(_COLUMNS, [(each.record, each.path or "-", each.problem) for each in done.bad], output)
    if done.bad:
        raise typer.Exit(ExitCode.NO)


async def _verify(options: ArchiveOptions, query: Query) -> VerificationResult:
    async with open_archive(options) as archiver:
        return await verified(archiver, query)
