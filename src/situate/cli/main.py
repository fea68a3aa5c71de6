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
        "Begin with `situate demo`: it needs no cluster. Exit codes: 0 done; 1 the answer is no, or it could not be "
        "done; 2 the command line or the configuration is wrong; 3 the cluster or the archive cannot be reached, or "
        "refused; 130 interrupted; 141 nobody reads the output any more."
    ),
)


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"situate {package.__version__}\n")
        raise typer.Exit


@app.callback()
def situate(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Schedulers for Kubernetes: they decide where work goes, say why, and can be rehearsed without a cluster."""


def main() -> None:
    """Run the console script."""
    with writable_output():
        app()
