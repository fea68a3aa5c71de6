"""Options of `situate spot` alone. This module imports only the parser of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of `plan`."""

    compare: Annotated[
        bool,
        typer.Option("--compare", help="Also show the results of topology spread constraints and of WorkloadSpread."),
    ] = False
    balloons: Annotated[
        bool,
        typer.Option("--balloons", help="Print Pods for kubectl apply that reserve the missing capacity of a wave."),
    ] = False
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE", help="Image of the Pods of --balloons, which do nothing; default: situate:VERSION."
        ),
    ] = None
