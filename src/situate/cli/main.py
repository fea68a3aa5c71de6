"""The `situate` command: one module a verb."""

from __future__ import annotations

import typer

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
    help="Schedulers for Kubernetes.",
)
app.command()(run)
app.command()(demo)
app.command()(embedded)
app.command()(check)
app.command()(simulate)
app.command()(crds)
app.command()(manifests)
app.add_typer(vpod_app, name="vpod")


def main() -> None:
    """Entry point of the console script."""
    app()
