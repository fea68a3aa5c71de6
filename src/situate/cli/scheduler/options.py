"""Options of `situate scheduler` alone. This module imports only the parser of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer

from situate.cli.terminal.completion import complete_nodes

_MOST_NODES: Final = 10_000


@dataclass(frozen=True, slots=True)
class AssumedChanges:
    """Changes of the cluster that `what-if` assumes."""

    add_nodes: Annotated[
        int,
        typer.Option(
            "--add-nodes", metavar="N", min=0, max=_MOST_NODES, help="Number of nodes to add, as copies of --like."
        ),
    ] = 0
    like: Annotated[
        str | None,
        typer.Option(metavar="NODE", help="Node to copy for --add-nodes.", autocompletion=complete_nodes),
    ] = None
    remove_node: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE", help="Node to remove, with its Pods; repeatable.", autocompletion=complete_nodes),
    ] = None
    cordon: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE", help="Node to cordon; repeatable.", autocompletion=complete_nodes),
    ] = None
    drain: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE",
            help="Node to cordon, with its Pods placed again; repeatable.",
            autocompletion=complete_nodes,
        ),
    ] = None
    remove_pod: Annotated[
        list[str] | None, typer.Option(metavar="NAMESPACE/NAME", help="Pod to remove; repeatable.")
    ] = None
