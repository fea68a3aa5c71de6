"""Commands of `situate sharding archive`: their arguments and help. Their implementation is imported when one runs."""

from __future__ import annotations

from typing import Annotated

import typer

from situate.cli.sharding.archive.options import (
    ArchiveLocation,
    Conditions,
    CopyOptions,
    PruneOptions,
    RecordName,
    RestoreOptions,
    ServerOptions,
)
from situate.cli.terminal.formats import Format
from situate.cli.terminal.option_sets import with_option_sets
from situate.cli.terminal.options import ClusterOptions, DryRunOption, OutputOption

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Records of completed objects that have left the cluster. restore writes to the cluster, prune and migrate to "
    "an archive.",
    epilog="""Examples:

\b
export SITUATE_ARCHIVE_URL=file:///var/lib/reports
situate sharding archive search -l team=red --failed
situate sharding archive get Report.batch.example.com ns1/nightly -o yaml
situate sharding archive restore Report.batch.example.com ns1/nightly
situate sharding archive prune --archive-retention 2160h --dry-run
situate sharding archive verify

A URL with a password comes from the environment or --archive-url-file, never from a flag.

Page: docs/guides/sharding/archive.md""",
)


@app.command(short_help="Show one archived object.")
@with_option_sets
def get(
    *,
    record: RecordName,
    whole: Annotated[
        bool, typer.Option("--record", help="Print the whole record with its object. Only with -o json or yaml.")
    ] = False,
    archive: ArchiveLocation,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show one archived object; -o json and yaml print it in its archived form.

    Exits with 1 if there is none, or its record is damaged.
    """
    from situate.cli.sharding.archive.get import show

    show(record, archive, output, whole=whole)


@app.command(short_help="List archived objects.")
@with_option_sets
def search(
    *,
    conditions: Conditions,
    limit: Annotated[
        int, typer.Option(min=0, metavar="N", help="Maximum number of records on a page; 0: no limit.")
    ] = 500,
    continue_: Annotated[
        str,
        typer.Option(
            "--continue", metavar="TOKEN", help="Token of the next page, from the output of the previous page."
        ),
    ] = "",
    with_objects: Annotated[
        bool, typer.Option("--with-objects", help="Print the records with their objects. Only with -o json or yaml.")
    ] = False,
    archive: ArchiveLocation,
    output: OutputOption = Format.TABLE,
) -> None:
    """List archived objects, the newest first. Unreadable records are named after the list."""
    from situate.cli.sharding.archive.search import show

    show(conditions, archive, output, limit=limit, continue_=continue_, whole=with_objects)


@app.command(short_help="Create an archived object again.")
@with_option_sets
def restore(
    *,
    record: RecordName,
    how: RestoreOptions,
    archive: ArchiveLocation,
    where: ClusterOptions,
    output: OutputOption = Format.TABLE,
) -> None:
    """Create an archived object again, with its status, unassigned, and without owners that are gone.

    It gets a new UID, and its time to live starts again. No executor works on it before its status is written. With
    --dry-run the API server checks it and stores nothing. Exits with 1 if there is no such record.
    """
    from situate.cli.sharding.archive.restore import show

    show(record, where, how, archive, output)


@app.command(short_help="Delete records older than their retention.")
@with_option_sets
def prune(
    *,
    conditions: Conditions,
    how: PruneOptions,
    archive: ArchiveLocation,
    output: OutputOption = Format.TABLE,
) -> None:
    """Delete the records that are older than their retention, counted from when they were archived.

    Each deletion is written to the audit log first. If that fails, or the archive is read-only, nothing is deleted.
    """
    from situate.cli.sharding.archive.prune import prune

    prune(conditions, how, archive, output)


@app.command(short_help="Copy records into another archive.")
@with_option_sets
def migrate(
    *,
    conditions: Conditions,
    archives: CopyOptions,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Copy records between two archives of any kinds. The source is not changed; existing records are skipped.

    After an interruption, repeat the command. Exits with 1 if a record could not be copied.
    """
    from situate.cli.sharding.archive.migrate import copy_records

    copy_records(conditions, archives, output, dry_run=dry_run)


@app.command(short_help="Read every record, and check its digest.")
@with_option_sets
def verify(
    *,
    conditions: Conditions,
    archive: ArchiveLocation,
    output: OutputOption = Format.TABLE,
) -> None:
    """Read every matching record, and compute its digest again. Exits with 1 if a record has changed."""
    from situate.cli.sharding.archive.verify import check

    check(conditions, archive, output)


@app.command(short_help="Serve live and archived objects to kubectl.")
@with_option_sets
def serve(
    *,
    server: ServerOptions,
    archive: ArchiveLocation,
    where: ClusterOptions,
) -> None:
    """Serve live and archived objects as one, read-only, in the form of the Kubernetes API.

    A caller needs a token that the API server knows, and the right to get or list the resource there. Without a
    certificate it listens on a loopback address only, so that tokens never cross a network unencrypted.
    """
    from situate.cli.sharding.archive.serve import serve

    serve(server, archive, where)
