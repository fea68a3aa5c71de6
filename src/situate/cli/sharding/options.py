"""Options that the commands of `situate sharding` share. This module imports only the parser of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from situate.cli.terminal.options import DryRunOption, InstallationOptions, TimeoutOption, WaitOption

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


@dataclass(frozen=True, slots=True)
class SupervisorOptions(InstallationOptions):
    """Options that select a supervisor, and the cluster or the files to read."""

    resource: str | None = None
    pool: PoolOption = None
    partition: PartitionOption = None
    executor_namespace: ExecutorNamespaceOption = None


@dataclass(frozen=True, slots=True)
class ExecutorOptions(SupervisorOptions):
    """Options that select the supervisor of an executor. Its commands write, so they read no files."""

    file: ConfigurationOption = None
    resource: ResourceOption = None
    pool: PoolOption = None
    partition: PartitionOption = None
    executor_namespace: ExecutorNamespaceOption = None
    objects: list[Path] | None = None
    installation: str = "situate"


@dataclass(frozen=True, slots=True)
class DrainOptions:
    """How `drain` waits, and whether it writes."""

    wait: WaitOption = False
    timeout: TimeoutOption = "60s"
    dry_run: DryRunOption = False


@dataclass(frozen=True, slots=True)
class TableOptions(SupervisorOptions):
    """Options of the commands that change slots of a partition table."""

    file: ConfigurationOption = None
    resource: ResourceOption = None
    pool: PoolOption = None
    by: PartitionByOption = None
    force: Annotated[
        bool, typer.Option("--force", help="Give slots also to a partition without a running supervisor.")
    ] = False
    dry_run: DryRunOption = False
    partition: str | None = None
    executor_namespace: str | None = None
    objects: list[Path] | None = None


@dataclass(frozen=True, slots=True)
class NewTableOptions(TableOptions):
    """Options of `create`: no object has a slot yet."""

    by: PartitionBy | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class ThawOptions(TableOptions):
    """Options of `thaw`: no partition receives slots."""

    force: bool = False


@dataclass(frozen=True, slots=True)
class ShownTableOptions(ThawOptions):
    """Options of `show`, which writes nothing."""

    dry_run: bool = False
