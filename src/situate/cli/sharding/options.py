"""Options that the commands of `situate sharding` share. This module imports only the parser of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

ConfigurationOption = Annotated[
    Path | None,
    typer.Option("--file", "-f", metavar="FILE", help="Configuration file; without it, --resource is required."),
]
ResourceOption = Annotated[
    str | None,
    typer.Option(
        "--resource",
        "-r",
        metavar="GROUP/VERSION/PLURAL",
        help="Resource of the objects, such as batch.example.com/v1/reports.",
    ),
]
PoolOption = Annotated[
    str | None, typer.Option("--pool", metavar="NAME", help="Pool of the executors, such as default.")
]
PartitionOption = Annotated[
    str | None,
    typer.Option(
        "--partition", metavar="INDEX/COUNT|N", help="Partition: 0/4 for the first of four, or its number in a table."
    ),
]
ExecutorNamespaceOption = Annotated[
    str | None, typer.Option("--executor-namespace", metavar="NAME", help="Namespace of all executors.")
]
PartitionBy = Literal["uid", "namespace", "name"]
PartitionByOption = Annotated[
    PartitionBy | None,
    typer.Option("--by", help="Field of the object that is hashed; default: partitionBy of the file, or uid."),
]
Goal = Literal["even", "bounded", "two-sided"]
"""Goals of `situate.sharding.rebalancing`."""
