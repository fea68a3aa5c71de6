"""`situate sharding archive restore`: creates an archived object anew."""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from situate.archive.options import ArchiveOptions
from situate.archive.record import ByName, ByUid
from situate.archive.restoring import CannotRestore, Content
from situate.cli.failures import WrongInput, mendable_failures
from situate.cli.formats import Format
from situate.cli.options import ContextOption, KubeconfigOption, OutputOption
from situate.cli.output import print_data
from situate.cli.progress import progress
from situate.cli.sharding.archive.named import KindArgument, NameArgument, UidOption, key_of
from situate.cli.sharding.archive.opened import UrlFileOption, UrlOption, archive_options, opened, run
from situate.cli.streams import complain, say
from situate.kube.connect import connect, find_connection
from situate.kube.errors import AlreadyExists
from situate.sharding.adapter import BadFieldPath, FieldPaths
from situate.sharding.configuration import BadConfiguration, SupervisorConfig
from situate.sharding.controller.restoring import RestoredObject
from situate.sharding.controller.restoring import restore as restored

_PATHS = FieldPaths()
Convert = Callable[[dict[str, Any]], Content]


def restore(
    kind: KindArgument,
    name: NameArgument = None,
    uid: UidOption = None,
    as_: Annotated[str, typer.Option("--as", metavar="NAME", help="Another name, if its own is taken.")] = "",
    keep_owners: Annotated[
        bool, typer.Option("--keep-owners", help="Also those that are gone: the garbage collector will take it.")
    ] = False,
    convert: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Turns the object into one of a version that is served."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Have it checked by the API server only.")] = False,
    assigned_to_path: Annotated[str, typer.Option(help="Where the assignment stands.")] = _PATHS.assigned_to_path,
    finalizer: Annotated[
        str | None, typer.Option(help="Of the supervisors; the object comes without. [env SITUATE_FINALIZER]")
    ] = None,
    archive_url: UrlOption = None,
    archive_url_file: UrlFileOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Create an archived object anew, with its status, unassigned, and without owners that are gone.

    It has a UID of its own, and its time to live begins anew. Nobody works on it before its status is there.
    """
    with mendable_failures(), progress("restoring"):
        options = archive_options(archive_url=archive_url, archive_url_file=archive_url_file, finalizer=finalizer)
        key = key_of(kind, name, uid)
        try:
            adapter = FieldPaths(assigned_to_path=assigned_to_path)
            config = SupervisorConfig(finalizer=options.finalizer)
            function = None if convert is None else _function(convert)
            work = _restore(
                options,
                key,
                (kubeconfig, context),
                adapter=adapter,
                config=config,
                name=as_,
                keep_owners=keep_owners,
                convert=function,
                dry_run=dry_run,
            )
            done = run(work)
        except (BadFieldPath, BadConfiguration, CannotRestore) as bad:
            raise WrongInput(str(bad)) from None
        except AlreadyExists as taken:
            raise WrongInput(f"{taken.message}; restore it under another name with --as NAME") from None
    if output in (Format.JSON, Format.YAML):
        print_data(dict(done.content), output)
        return
    for owner in done.left_out:
        complain(f"without its owner {owner.kind} {owner.name}, which is gone; --keep-owners keeps it")
    metadata = done.content["metadata"]
    where = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    say(f"{where} {'would be' if dry_run else 'was'} restored")


async def _restore(
    options: ArchiveOptions, key: ByName | ByUid, where: tuple[Path | None, str | None], **how: Any
) -> RestoredObject:
    async with opened(options) as archiver:
        record = await archiver.get(key)
        client = connect(find_connection(*where), random.Random())
        try:
            return await restored(client, record, **how)
        finally:
            await client.close()


def _function(text: str) -> Convert:
    module, _, name = text.partition(":")
    try:
        found = getattr(import_module(module), name) if module and name else None
    except (ImportError, AttributeError) as problem:
        raise WrongInput(
            f"--convert: found {text!r}: {problem}; allowed: MODULE:FUNCTION that can be imported"
        ) from None
    if not callable(found):
        raise WrongInput(f"--convert: found {text!r}, allowed: MODULE:FUNCTION, a function of an object")
    function: Convert = found
    return function
