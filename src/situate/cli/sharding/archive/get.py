"""Print one archived object in its archived form."""

from __future__ import annotations

from situate.archive.options import ArchiveOptions
from situate.archive.records.record import ByName, ByUid, Record
from situate.cli.sharding.archive.archive_access import archive_options, opened, run
from situate.cli.sharding.archive.record_key import key_of
from situate.cli.sharding.archive.record_output import COLUMNS, data, rows
from situate.cli.terminal.failures import mendable_failures
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
    with mendable_failures(), progress("reading the archive"):
        options = archive_options(archive_url=archive_url, archive_url_file=archive_url_file)
        found = run(_get(options, key_of(kind, name, uid, namespace)))
    if output in (Format.JSON, Format.YAML):
        print_data(data(found, whole=True) if whole else found.object, output)
    else:
        print_table(COLUMNS, rows([found]), output)


async def _get(options: ArchiveOptions, key: ByName | ByUid) -> Record:
    async with opened(options) as archiver:
        return await archiver.get(key)
