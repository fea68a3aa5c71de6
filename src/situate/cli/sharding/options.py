"""Options that the commands of `situate sharding` share. This module imports only the parser of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

ConfigurationOption = Annotated[
    Path | None,
    typer.Option("--file", "-f", metavar="FILE", help="The configuration; without one, --resource is needed."),
]
ResourceOption = Annotated[
    str | None,
    typer.Option(
        "--resource",
        "-r",
        metavar="GROUP/VERSION/PLURAL",
        help="The objects' resource, such as batch.example.com/v1/reports.",
    ),
]
PoolOption = Annotated[
    str | None, typer.Option("--pool", metavar="NAME", help="The pool of the executors, such as default.")
]
PartitionOption = Annotated[
    str | None,
    typer.Option("--partition", metavar="INDEX/COUNT|N", help="One partition, as 0/4, or as its number in a table."),
]
ExecutorNamespaceOption = Annotated[
    str | None, typer.Option("--executor-namespace", metavar="NAME", help="The one namespace of all executors.")
]
PartitionBy = Literal["uid", "namespace", "name"]
PartitionByOption = Annotated[
    PartitionBy | None,
    typer.Option("--by", help="The field of an object that is hashed; default: as the file says, or uid."),
]
Goal = Literal["even", "bounded", "two-sided"]
"""Goals of `situate.sharding.rebalancing`."""
