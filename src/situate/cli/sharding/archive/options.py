"""Options and arguments that the archive commands share. This module imports only the parser of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from situate.cli.terminal.options import DryRunOption


@dataclass(frozen=True, slots=True)
class ArchiveLocation:
    """Archive of a command; the environment may name it instead."""

    archive_url: Annotated[
        str | None,
        typer.Option(
            "--archive-url",
            metavar="URL",
            help="URL of the archive, such as file:///var/lib/reports. With a password, use SITUATE_ARCHIVE_URL.",
        ),
    ] = None
    archive_url_file: Annotated[
        str | None,
        typer.Option(
            "--archive-url-file",
            metavar="FILE",
            help="File that holds the URL of the archive. [env SITUATE_ARCHIVE_URL_FILE]",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class RecordName:
    """Record that a command names."""

    kind: Annotated[
        str,
        typer.Argument(metavar="KIND.GROUP", help="Kind and group of the object, such as Report.batch.example.com."),
    ]
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAMESPACE/NAME",
            help="Name of the object; NAME alone if it is cluster-scoped, or with -n. Of several records, the newest.",
            show_default=False,
        ),
    ] = None
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the object.")
    ] = None
    uid: Annotated[
        str | None, typer.Option("--uid", metavar="UID", help="UID of the object; its name is then optional.")
    ] = None


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions on a record; all given ones must hold. Each field is the flag of its name."""

    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND.GROUP", help="Only objects of this kind, such as Report.batch.example.com."),
    ] = None
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace", "-n", metavar="NAME", help="Only objects in this namespace; repeatable. Default: all."
        ),
    ] = None
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Objects of all namespaces, as without -n.")
    ] = False
    name: Annotated[
        list[str] | None, typer.Option("--name", metavar="NAME", help="Only objects with this name; repeatable.")
    ] = None
    substring: Annotated[str, typer.Option(metavar="TEXT", help="Only objects with this text in their name.")] = ""
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="Only objects with a name that starts with this text.")
    ] = ""
    suffix: Annotated[str, typer.Option(metavar="TEXT", help="Only objects with a name that ends with this text.")] = ""
    selector: Annotated[
        str,
        typer.Option("--selector", "-l", metavar="LABELS", help="Only objects with these labels, such as team=red."),
    ] = ""
    uid: Annotated[str | None, typer.Option(metavar="UID", help="Only the object with this UID.")] = None
    owner_uid: Annotated[
        str | None, typer.Option(metavar="UID", help="Only objects with a controlling owner of this UID.")
    ] = None
    successful: Annotated[
        bool | None,
        typer.Option("--successful/--failed", help="Only objects that succeeded, or only objects that failed."),
    ] = None
    reason: Annotated[str | None, typer.Option(metavar="REASON", help="Only objects that ended with this reason.")] = (
        None
    )
    completed_since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|AGE",
            help="Only objects completed since a time, such as 2026-01-31T12:00:00Z, or since an age, such as 36h.",
        ),
    ] = None
    completed_before: Annotated[
        str | None, typer.Option(metavar="TIME|AGE", help="Only objects completed before this time or age.")
    ] = None
    archived_since: Annotated[
        str | None, typer.Option(metavar="TIME|AGE", help="Only objects archived since this time or age.")
    ] = None
    archived_before: Annotated[
        str | None, typer.Option(metavar="TIME|AGE", help="Only objects archived before this time or age.")
    ] = None


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """Options of `restore`."""

    as_: Annotated[
        str, typer.Option("--as", metavar="NAME", help="Name of the restored object, if its own name is taken.")
    ] = ""
    keep_owners: Annotated[
        bool,
        typer.Option(
            "--keep-owners",
            help="Keep references to owners that are gone. The garbage collector then deletes the object.",
        ),
    ] = False
    convert: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Function that converts the object to a served version."),
    ] = None
    dry_run: DryRunOption = False
    assigned_to_path: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Field of the object that holds its executor; default: spec.assignedTo."),
    ] = None
    finalizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Finalizer of the supervisors, which restore leaves out. [env SITUATE_FINALIZER]"
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class PruneOptions:
    """Options of `prune`."""

    archive_retention: Annotated[
        list[str] | None,
        typer.Option(
            "--archive-retention",
            metavar="DURATION|OUTCOME=DURATION",
            help="How long records stay, such as 2160h, or successful=2160h,failed=8760h; default: for ever. "
            "[env SITUATE_ARCHIVE_RETENTION]",
        ),
    ] = None
    dry_run: DryRunOption = False
    audit_file: Annotated[
        Path | None,
        typer.Option(
            "--audit-file",
            metavar="FILE",
            help="File for a line of JSON before each deletion; default: standard error.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """Archives of `migrate`."""

    from_url: Annotated[
        str | None,
        typer.Option(
            "--from-archive-url",
            metavar="URL",
            help="URL of the archive to copy from. With a password, use SITUATE_FROM_ARCHIVE_URL.",
        ),
    ] = None
    from_file: Annotated[
        str | None,
        typer.Option(
            "--from-archive-url-file",
            metavar="FILE",
            help="File that holds the URL of the archive to copy from. [env SITUATE_FROM_ARCHIVE_URL_FILE]",
        ),
    ] = None
    to_url: Annotated[
        str | None,
        typer.Option(
            "--to-archive-url",
            metavar="URL",
            help="URL of the archive to copy to. With a password, use SITUATE_TO_ARCHIVE_URL.",
        ),
    ] = None
    to_file: Annotated[
        str | None,
        typer.Option(
            "--to-archive-url-file",
            metavar="FILE",
            help="File that holds the URL of the archive to copy to. [env SITUATE_TO_ARCHIVE_URL_FILE]",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of `serve`."""

    resource: Annotated[
        list[str],
        typer.Option(
            "--resource",
            "-r",
            metavar="GROUP/VERSION/PLURAL",
            help="Resource to serve, such as batch.example.com/v1/reports; repeatable.",
        ),
    ]
    address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address to listen on; without a host, every address.")
    ] = ":8443"
    tls_cert_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="PEM file with the certificate chain; read again after a change."),
    ] = None
    tls_private_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM file with the key of the certificate.")
    ] = None
    audience: Annotated[
        list[str] | None,
        typer.Option(
            "--audience",
            metavar="NAME",
            help="Audience of accepted tokens; default: the API server. Repeatable.",
        ),
    ] = None
