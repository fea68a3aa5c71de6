"""Create an archived object again."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from situate.archive.options import ArchiveOptions
from situate.archive.records.record import ByName, ByUid
from situate.archive.records.restored_object import CannotRestore, Content
from situate.cli.read_cluster.cluster_source import ClusterSource
from situate.cli.sharding.archive.archive_access import archive_options, open_archive, run_archive_work
from situate.cli.sharding.archive.record_key import parse_key
from situate.cli.terminal.failures import WrongInput, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.output import print_data
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_error, print_line
from situate.kube.errors import AlreadyExists
from situate.sharding.model.field_paths import BadFieldPath, FieldPaths
from situate.sharding.model.supervisor_config import BadConfiguration, SupervisorConfig
from situate.sharding.supervisor.controller.archive.restore import RestoredObject
from situate.sharding.supervisor.controller.archive.restore import restore as restored

_PATHS = FieldPaths()
Convert = Callable[[dict[str, Any]], Content]


def restore(
    key: ByName | ByUid,
    options: ArchiveOptions,
    where: ClusterSource,
    *,
    new_name: str,
    keep_owners: bool,
    convert: str | None,
    assigned_to_path: str | None,
    dry_run: bool,
) -> RestoredObject:
    """Create the object again. Raises `WrongInput`, and the errors of archive and cluster."""
    try:
        adapter = FieldPaths(assigned_to_path=assigned_to_path or _PATHS.assigned_to_path)
        work = _restore(
            options,
            key,
            where,
            adapter=adapter,
            config=SupervisorConfig(finalizer=options.finalizer),
            name=new_name,
            keep_owners=keep_owners,
            convert=None if convert is None else _import_function(convert),
            dry_run=dry_run,
        )
        return run_archive_work(work)
    except (BadFieldPath, BadConfiguration, CannotRestore) as bad:
        raise WrongInput(str(bad)) from None
    except AlreadyExists as taken:
        raise WrongInput(f"{taken.message}; restore it under another name with --as NAME") from None


def show(
    kind: str,
    name: str | None,
    where: ClusterSource,
    *,
    namespace: str | None,
    uid: str | None,
    new_name: str,
    keep_owners: bool,
    convert: str | None,
    assigned_to_path: str | None,
    finalizer: str | None,
    archive_url: str | None,
    archive_url_file: str | None,
    output: Format,
    dry_run: bool,
) -> None:
    """Create the object again and print it."""
    with report_failures(), progress("restoring"):
        options = archive_options(archive_url=archive_url, archive_url_file=archive_url_file, finalizer=finalizer)
        done = restore(
            parse_key(kind, name, uid, namespace),
            options,
            where,
            new_name=new_name,
            keep_owners=keep_owners,
            convert=convert,
            assigned_to_path=assigned_to_path,
            dry_run=dry_run,
        )
    if output in (Format.JSON, Format.YAML):
        print_data(dict(done.content), output)
        return
    for owner in done.left_out:
        print_error(
            f"restored without its owner {owner.kind} {owner.name}, which is gone; --keep-owners keeps the reference"
        )
    metadata = done.content["metadata"]
    place = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    print_line(f"{place} {'would be' if dry_run else 'was'} restored")


async def _restore(options: ArchiveOptions, key: ByName | ByUid, where: ClusterSource, **how: Any) -> RestoredObject:
    async with open_archive(options) as archiver:
        record = await archiver.get(key)
        client = where.client()
        try:
            return await restored(client, record, **how)
        finally:
            await client.close()


def _import_function(text: str) -> Convert:
    module, _, name = text.partition(":")
    try:
        found = getattr(import_module(module), name) if module and name else None
    except (ImportError, AttributeError) as problem:
        raise WrongInput(
            f"--convert: found {text!r}: {problem}; allowed: MODULE:FUNCTION that can be imported"
        ) from None
    if not callable(found):
        raise WrongInput(f"--convert: found {text!r}, allowed: MODULE:FUNCTION, a function that takes an object")
    function: Convert = found
    return function
