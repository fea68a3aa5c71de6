"""Create an archived object again."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from situate.archive.options import ArchiveOptions
from situate.archive.records.record import ByName, ByUid
from situate.archive.records.restored_object import CannotRestore, Content
from situate.cli.read_cluster.cluster_source import open_client
from situate.cli.sharding.archive.archive_access import archive_options, open_archive, run_archive_work
from situate.cli.sharding.archive.options import ArchiveLocation, RecordName, RestoreOptions
from situate.cli.sharding.archive.record_key import parse_key
from situate.cli.terminal.failures import WrongInput, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.options import ClusterOptions
from situate.cli.terminal.output import print_answer
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_line
from situate.kube.errors import AlreadyExists
from situate.sharding.model.field_paths import BadFieldPath, FieldPaths
from situate.sharding.model.supervisor_config import BadConfiguration, SupervisorConfig
from situate.sharding.supervisor.controller.archive.restore import RestoredObject
from situate.sharding.supervisor.controller.archive.restore import restore as restored

_PATHS = FieldPaths()
Convert = Callable[[dict[str, Any]], Content]


def show(
    record: RecordName, where: ClusterOptions, how: RestoreOptions, archive: ArchiveLocation, output: Format
) -> None:
    """Create the object again and print it."""
    with report_failures(), progress("restoring"):
        options = archive_options(archive, finalizer=how.finalizer)
        done = _restore_record(parse_key(record), options, where, how)
    metadata = done.content["metadata"]
    place = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    print_answer(
        output,
        lambda: dict(done.content),
        lambda: print_line(f"{place} {'would be' if how.dry_run else 'was'} restored"),
        (
            f"restored without its owner {owner.kind} {owner.name}, which is gone; --keep-owners keeps the reference"
            for owner in done.left_out
        ),
    )


def _restore_record(
    key: ByName | ByUid, options: ArchiveOptions, where: ClusterOptions, how: RestoreOptions
) -> RestoredObject:
    """Create the object again. Raises `WrongInput`, and the errors of archive and cluster."""
    try:
        work = _restore(
            options,
            key,
            where,
            adapter=FieldPaths(assigned_to_path=how.assigned_to_path or _PATHS.assigned_to_path),
            config=SupervisorConfig(finalizer=options.finalizer),
            name=how.as_,
            keep_owners=how.keep_owners,
            convert=None if how.convert is None else _import_function(how.convert),
            dry_run=how.dry_run,
        )
        return run_archive_work(work)
    except (BadFieldPath, BadConfiguration, CannotRestore) as bad:
        raise WrongInput(str(bad)) from None
    except AlreadyExists as taken:
        raise WrongInput(f"{taken.message}; restore it under another name with --as NAME") from None


async def _restore(options: ArchiveOptions, key: ByName | ByUid, where: ClusterOptions, **how: Any) -> RestoredObject:
    async with open_archive(options) as archiver:
        record = await archiver.get(key)
        async with open_client(where) as client:
            return await restored(client, record, **how)


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
