"""Entry point of the `situate` command. `verbs` lists its commands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import situate as package
from situate.cli.terminal.streams import writable_output
from situate.cli.verbs import VerbGroup

app = typer.Typer(
    name="situate",
    cls=VerbGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=(
        "Start with `situate demo`, which needs no cluster. Exit codes: 0 success; 1 negative answer, or failure; "
        "2 wrong command line or configuration; 3 the cluster or the archive is unreachable, or refused the request; "
        "130 interrupted; 141 broken pipe."
    ),
)


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"situate {package.__version__}\n")
        raise typer.Exit


@app.callback()
def situate(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Schedulers for Kubernetes: they decide where work goes, say why, and can be rehearsed without a cluster."""


def main() -> None:
    """Run the console script."""
    with writable_output():
        app()
