"""Print one archived object in its archived form."""

from __future__ import annotations

from situate.archive.options import ArchiveOptions
from situate.archive.records.record import ByName, ByUid, Record
from situate.cli.sharding.archive.archive_access import archive_options, open_archive, run_archive_work
from situate.cli.sharding.archive.record_key import parse_key
from situate.cli.sharding.archive.record_output import COLUMNS, record_data, record_rows
from situate.cli.terminal.failures import report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import print_data, print_table
from situate.cli.terminal.progress import progress


def show(
    kind: str,
    name: str | None,
    *,
    namespace: str | None,
    uid: str | None,
    whole: bool,
    archive_url: str | None,
    archive_url_file: str | None,
    output: Format,
) -> None:
    """Print the object; if `whole`, the whole record."""
    with report_failures(), progress("reading the archive"):
        options = archive_options(archive_url=archive_url, archive_url_file=archive_url_file)
        found = run_archive_work(_get_record(options, parse_key(kind, name, uid, namespace)))
    if output in (Format.JSON, Format.YAML):
        print_data(record_data(found, whole=True) if whole else found.object, output)
    else:
        print_table(COLUMNS, record_rows([found]), output)


async def _get_record(options: ArchiveOptions, key: ByName | ByUid) -> Record:
    async with open_archive(options) as archiver:
        return await archiver.get(key)
