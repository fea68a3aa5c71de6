"""The `situate` command: one module a verb."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from situate import __version__
from situate.cli.check import check
from situate.cli.crds import crds
from situate.cli.demo.command import demo
from situate.cli.embedded import embedded
from situate.cli.manifests import manifests
from situate.cli.run import run
from situate.cli.simulate import simulate
from situate.cli.vpod import app as vpod_app

app = typer.Typer(
    name="situate",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="Begin with `situate demo`: it needs no cluster.",
)
app.command(short_help="Run the schedulers against a cluster.")(run)
app.command(short_help="Play a story on an embedded cluster.")(demo)
app.command(short_help="Run just an API server, in memory.")(embedded)
app.command(short_help="Check the configuration, and the cluster for it.")(check)
app.command(short_help="Compare settings on a simulated cluster.")(simulate)
app.command(short_help="Print the custom resource definitions.")(crds)
app.command(short_help="Print what to apply to install situate.")(manifests)
app.add_typer(vpod_app, name="vpod", short_help="Virtual replicas: what is, why, what would be.")


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"situate {__version__}\n")
        raise typer.Exit


@app.callback()
def situate(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Schedulers for Kubernetes: they decide where work goes, say why, and can be rehearsed without a cluster."""


def main() -> None:
    """Entry point of the console script."""
    app()
