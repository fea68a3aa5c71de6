"""Print one archived object in its archived form."""

from __future__ import annotations

from situate.archive.options import ArchiveOptions
from situate.archive.records.record import ByName, ByUid, Record
from situate.cli.sharding.archive.archive_access import archive_options, open_archive, run_archive_work
from situate.cli.sharding.archive.options import ArchiveLocation, RecordName
from situate.cli.sharding.archive.record_key import parse_key
from situate.cli.sharding.archive.record_output import COLUMNS, record_data
from situate.cli.terminal.failures import report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import print_answer, print_items
from situate.cli.terminal.progress import progress


def show(record: RecordName, archive: ArchiveLocation, output: Format, *, whole: bool) -> None:
    """Print the object; if `whole`, the whole record."""
    with report_failures(), progress("reading the archive"):
        found = run_archive_work(_get_record(archive_options(archive), parse_key(record)))
    print_answer(
        output,
        lambda: record_data(found, whole=True) if whole else found.object,
        lambda: print_items(COLUMNS, [found], output),
    )


async def _get_record(options: ArchiveOptions, key: ByName | ByUid) -> Record:
    async with open_archive(options) as archiver:
        return await archiver.get(key)
