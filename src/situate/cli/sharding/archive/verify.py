"""Check that an archive still holds its records as they were stored."""

from __future__ import annotations

import typer

from situate.archive.operations.verification import VerificationResult
from situate.archive.operations.verification import verify as verified
from situate.archive.options import ArchiveOptions
from situate.archive.records.query import Query
from situate.cli.sharding.archive.archive_access import archive_options, open_archive, run_archive_work
from situate.cli.sharding.archive.options import ArchiveLocation, Conditions
from situate.cli.sharding.archive.record_output import unreadable_data
from situate.cli.sharding.archive.record_query import build_query
from situate.cli.terminal.failures import ExitCode, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import Column, print_answer, print_table
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_line

_COLUMNS = (Column("record"), Column("field"), Column("problem"))


def check(conditions: Conditions, archive: ArchiveLocation, output: Format) -> None:
    """Read the records and print how many are unchanged; exit with 1 if one has changed."""
    with report_failures(), progress("reading every record"):
        done = run_archive_work(_verify(archive_options(archive), build_query(conditions)))
    told = {"whole": done.whole, "unreadable": unreadable_data(done.bad)}
    print_answer(output, lambda: told, lambda: _print(done, output))
    if done.bad:
        raise typer.Exit(ExitCode.NO)


def _print(done: VerificationResult, output: Format) -> None:
    print_line(f"{done.whole} records are intact, {len(done.bad)} are not")
    if done.bad:
        print_table(_COLUMNS, [(each.record, each.path or "-", each.problem) for each in done.bad], output)


async def _verify(options: ArchiveOptions, query: Query) -> VerificationResult:
    async with open_archive(options) as archiver:
        return await verified(archiver, query)
