"""The `situate` command."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, help="Schedulers for Kubernetes: vpod.")


def main() -> None:
    """Entry point of the console script."""
    app()
