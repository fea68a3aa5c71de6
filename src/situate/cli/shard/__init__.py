"""`situate shard`: objects and their executors, and the archive of those that are done."""

from __future__ import annotations

import typer

from situate.cli.shard.archive import app as archive

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Custom resources spread over executors.")
app.add_typer(archive, name="archive", short_help="Find, restore, copy and check what is archived.")
