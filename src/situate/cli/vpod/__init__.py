"""`situate vpod`: what is placed where, why, and what would be done."""

from __future__ import annotations

import typer

from situate.cli.vpod.explain import explain
from situate.cli.vpod.plan import plan
from situate.cli.vpod.status import status

app = typer.Typer(no_args_is_help=True, help="Placements of virtual replicas: what is, why, and what would be.")
app.command()(status)
app.command()(explain)
app.command()(plan)
