"""Commands of `situate sharding archive`: their arguments and help. Their implementation is imported when one runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from situate.cli.sharding.archive.options import (
    Conditions,
    KindArgument,
    NameArgument,
    RecordNamespaceOption,
    UidOption,
    UrlFileOption,
    UrlOption,
    with_conditions,
)
from situate.cli.terminal.formats import Format
from situate.cli.terminal.options import ContextOption, DryRunOption, KubeconfigOption, OutputOption

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
def get(
    kind: KindArgument,
    name: NameArgument = None,
    namespace: RecordNamespaceOption = None,
    uid: UidOption = None,
    record: Annotated[
        bool, typer.Option("--record", help="Print the whole record with its object. Only with -o json or yaml.")
    ] = False,
    archive_url: UrlOption = None,
    archive_url_file: UrlFileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Show one archived object; -o json and yaml print it in its archived form.

    Exits with 1 if there is none, or its record is damaged.
    """
    from situate.cli.sharding.archive.get import show

    show(
        kind,
        name,
        namespace=namespace,
        uid=uid,
        whole=record,
        archive_url=archive_url,
        archive_url_file=archive_url_file,
        output=output,
    )


@app.command(short_help="List archived objects.")
@with_conditions
def search(
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
    archive_url: UrlOption = None,
    archive_url_file: UrlFileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """List archived objects, the newest first. Unreadable records are named after the list."""
    from situate.cli.sharding.archive.search import show

    show(
        conditions,
        limit=limit,
        continue_=continue_,
        whole=with_objects,
        archive_url=archive_url,
        archive_url_file=archive_url_file,
        output=output,
    )


@app.command(short_help="Create an archived object again.")
def restore(
    kind: KindArgument,
    name: NameArgument = None,
    namespace: RecordNamespaceOption = None,
    uid: UidOption = None,
    as_: Annotated[
        str, typer.Option("--as", metavar="NAME", help="Name of the restored object, if its own name is taken.")
    ] = "",
    keep_owners: Annotated[
        bool,
        typer.Option(
            "--keep-owners",
            help="Keep references to owners that are gone. The garbage collector then deletes the object.",
        ),
    ] = False,
    convert: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Function that converts the object to a served version."),
    ] = None,
    dry_run: DryRunOption = False,
    assigned_to_path: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Field of the object that holds its executor; default: spec.assignedTo."),
    ] = None,
    finalizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Finalizer of the supervisors, which restore leaves out. [env SITUATE_FINALIZER]"
        ),
    ] = None,
    archive_url: UrlOption = None,
    archive_url_file: UrlFileOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Create an archived object again, with its status, unassigned, and without owners that are gone.

    It gets a new UID, and its time to live starts again. No executor works on it before its status is written. With
    --dry-run the API server checks it and stores nothing. Exits with 1 if there is no such record.
    """
    from situate.cli.read_cluster.cluster_source import ClusterSource
    from situate.cli.sharding.archive.restore import show

    show(
        kind,
        name,
        ClusterSource(kubeconfig, context),
        namespace=namespace,
        uid=uid,
        new_name=as_,
        keep_owners=keep_owners,
        convert=convert,
        assigned_to_path=assigned_to_path,
        finalizer=finalizer,
        archive_url=archive_url,
        archive_url_file=archive_url_file,
        output=output,
        dry_run=dry_run,
    )


@app.command(short_help="Delete records older than their retention.")
@with_conditions
def prune(
    conditions: Conditions,
    archive_retention: Annotated[
        list[str] | None,
        typer.Option(
            "--archive-retention",
            metavar="DURATION|OUTCOME=DURATION",
            help="How long records stay, such as 2160h, or successful=2160h,failed=8760h; default: for ever. "
            "[env SITUATE_ARCHIVE_RETENTION]",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    audit_file: Annotated[
        Path | None,
        typer.Option(
            "--audit-file",
            metavar="FILE",
            help="File for a line of JSON before each deletion; default: standard error.",
        ),
    ] = None,
    archive_url: UrlOption = None,
    archive_url_file: UrlFileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Delete the records that are older than their retention, counted from when they were archived.

    Each deletion is written to the audit log first. If that fails, or the archive is read-only, nothing is deleted.
    """
    from situate.cli.sharding.archive.prune import prune

    prune(
        conditions,
        retention=archive_retention or (),
        audit_file=audit_file,
        archive_url=archive_url,
        archive_url_file=archive_url_file,
        output=output,
        dry_run=dry_run,
    )


@app.command(short_help="Copy records into another archive.")
@with_conditions
def migrate(
    conditions: Conditions,
    from_url: Annotated[
        str | None,
        typer.Option(
            "--from-archive-url",
            metavar="URL",
            help="URL of the archive to copy from. With a password, use SITUATE_FROM_ARCHIVE_URL.",
        ),
    ] = None,
    from_file: Annotated[
        str | None,
        typer.Option(
            "--from-archive-url-file",
            metavar="FILE",
            help="File that holds the URL of the archive to copy from. [env SITUATE_FROM_ARCHIVE_URL_FILE]",
        ),
    ] = None,
    to_url: Annotated[
        str | None,
        typer.Option(
            "--to-archive-url",
            metavar="URL",
            help="URL of the archive to copy to. With a password, use SITUATE_TO_ARCHIVE_URL.",
        ),
    ] = None,
    to_file: Annotated[
        str | None,
        typer.Option(
            "--to-archive-url-file",
            metavar="FILE",
            help="File that holds the URL of the archive to copy to. [env SITUATE_TO_ARCHIVE_URL_FILE]",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Copy records between two archives of any kinds. The source is not changed; existing records are skipped.

    After an interruption, repeat the command. Exits with 1 if a record could not be copied.
    """
    from situate.cli.sharding.archive.migrate import copy_records

    copy_records(
        conditions,
        from_url=from_url,
        from_file=from_file,
        to_url=to_url,
        to_file=to_file,
        output=output,
        dry_run=dry_run,
    )


@app.command(short_help="Read every record, and check its digest.")
@with_conditions
def verify(
    conditions: Conditions,
    archive_url: UrlOption = None,
    archive_url_file: UrlFileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Read every matching record, and compute its digest again. Exits with 1 if a record has changed."""
    from situate.cli.sharding.archive.verify import check

    check(conditions, archive_url=archive_url, archive_url_file=archive_url_file, output=output)


@app.command(short_help="Serve live and archived objects to kubectl.")
def serve(
    resource: Annotated[
        list[str],
        typer.Option(
            "--resource",
            "-r",
            metavar="GROUP/VERSION/PLURAL",
            help="Resource to serve, such as batch.example.com/v1/reports; repeatable.",
        ),
    ],
    address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address to listen on; without a host, every address.")
    ] = ":8443",
    tls_cert_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="PEM file with the certificate chain; read again after a change."),
    ] = None,
    tls_private_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM file with the key of the certificate.")
    ] = None,
    audience: Annotated[
        list[str] | None,
        typer.Option(
            "--audience",
            metavar="NAME",
            help="Audience of accepted tokens; default: the API server. Repeatable.",
        ),
    ] = None,
    archive_url: UrlOption = None,
    archive_url_file: UrlFileOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Serve live and archived objects as one, read-only, in the form of the Kubernetes API.

    A caller needs a token that the API server knows, and the right to get or list the resource there. Without a
    certificate it listens on a loopback address only, so that tokens never cross a network unencrypted.
    """
    from situate.cli.sharding.archive.serve import serve

    serve(
        resource,
        address=address,
        tls_cert_file=tls_cert_file,
        tls_private_key_file=tls_private_key_file,
        audiences=tuple(audience or ()),
        archive_url=archive_url,
        archive_url_file=archive_url_file,
        kubeconfig=kubeconfig,
        context=context,
    )
