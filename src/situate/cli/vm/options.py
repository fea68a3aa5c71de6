"""Options of `situate vm` alone. This module imports only the parser of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from situate.cli.terminal.options import ClusterOptions, OptionalFileOption, SetOption, TimeoutOption, WaitOption


@dataclass(frozen=True, slots=True)
class WaitOptions:
    """Whether and how long `drain` waits."""

    wait: WaitOption = False
    timeout: TimeoutOption = "10m"


@dataclass(frozen=True, slots=True)
class DrainClusterOptions(ClusterOptions):
    """Cluster of `drain`, and the configuration that names the kinds of its VMs."""

    file: OptionalFileOption = None
    assignments: SetOption = None


@dataclass(frozen=True, slots=True)
class EmulatorTimes:
    """Times of `machines`."""

    lease_seconds: Annotated[
        float, typer.Option(min=1.0, metavar="SECONDS", help="Time after which another process may take over.")
    ] = 15.0
    scale_seconds: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="How long a VM takes to change its size.")
    ] = 0.0
    handover_seconds: Annotated[
        float,
        typer.Option(min=0.0, metavar="SECONDS", help="How long the source Pod waits for a hand-over to be written."),
    ] = 10.0
