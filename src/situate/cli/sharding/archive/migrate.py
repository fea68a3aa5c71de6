"""Copy records from one archive into another; each copy is read back and compared."""

from __future__ import annotations

import typer

from situate.archive.operations.migration import MigrationProgress
from situate.archive.operations.migration import migrate as migrated
from situate.archive.options import ArchiveOptions
from situate.archive.records.query import Query
from situate.cli.sharding.archive.archive_access import archive_options, open_archive, run_archive_work
from situate.cli.sharding.archive.options import ArchiveLocation, Conditions, CopyOptions
from situate.cli.sharding.archive.record_output import unreadable_data
from situate.cli.sharding.archive.record_query import build_query
from situate.cli.terminal.failures import ExitCode, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import print_answer
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_line

_FROM, _TO = "from", "to"


def copy_records(conditions: Conditions, archives: CopyOptions, output: Format, *, dry_run: bool) -> None:
    """Copy the records and print how many; exit with 1 if one could not be copied."""
    with report_failures(), progress("copying records"):
        source = archive_options(ArchiveLocation(archives.from_url, archives.from_file), _FROM)
        target = archive_options(ArchiveLocation(archives.to_url, archives.to_file), _TO)
        done = run_archive_work(_migrate(source, target, build_query(conditions), dry_run=dry_run))
    told = {
        "dryRun": dry_run,
        "copied": done.copied,
        "present": done.present,
        "newer": done.newer,
        "failed": [{"record": str(each.subject.key), "problem": each.problem} for each in done.failed],
        "unreadable": unreadable_data(done.corrupt),
    }
    problems = (*(f"{each.subject.key}: {each.problem}" for each in done.failed), *map(str, done.corrupt))
    copied = "would be copied" if dry_run else "copied"
    text = f"{done.copied} records {copied}, {done.present} already present, {done.newer} present in a newer version"
    print_answer(output, lambda: told, lambda: print_line(text), [f"not copied: {each}" for each in problems])
    if not done.complete:
        raise typer.Exit(ExitCode.NO)


async def _migrate(source: ArchiveOptions, target: ArchiveOptions, query: Query, *, dry_run: bool) -> MigrationProgress:
    async with open_archive(source, _FROM) as old, open_archive(target, _TO, may_be_new=not dry_run) as new:
        if not dry_run:
            await new.check()  # an archive that is not writable is reported once, not for each record
        return await migrated(old, new, query=query, dry_run=dry_run)
