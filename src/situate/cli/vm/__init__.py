"""`situate vm`: virtual machines that grow, shrink and move."""

from __future__ import annotations

import typer

from situate.cli.vm.agent import agent

_HELP = """Virtual machines that grow, shrink and move.

\b
the agent of a node, which asks for what its machines' load needs:
situate vm agent --node n1
without guests, for the whole of an embedded cluster:
situate vm agent --all-nodes --set monitor.kind=standIn --set metrics.source=annotation
"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_HELP)


@app.callback()
def _vm() -> None:
    """A group, also while it has one verb."""


app.command(short_help="Look after the size of machines.")(agent)
