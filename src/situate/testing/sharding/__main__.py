"""`python -m situate.testing.sharding`: plays histories of sharding, one or many, and explores its small worlds."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from situate.testing.histories.play import command_line
from situate.testing.sharding.exploration.worlds import LARGE, QUICK
from situate.testing.sharding.soak import PRODUCT

app = command_line(PRODUCT)


@app.command("explore")
def explore_worlds(
    large: Annotated[
        bool, typer.Option(help="Also explore the larger worlds, which takes minutes and gigabytes.")
    ] = False,
) -> None:
    """Explore every order of events in small worlds (B12). End at the first breach, and print the path to it."""
    for world in (*QUICK, *(LARGE if large else ())):
        began = time.process_time()
        found = world.explore(frozenset())
        said = found.breach or world.unfinished_work(found)
        spent_s = time.process_time() - began
        typer.echo(f"{world.name}: {found.states} states, {found.moves} moves, {spent_s:.1f} s: {said or 'no breach'}")
        if said:
            for line in found.path:
                typer.echo(f"  {line}")
            raise typer.Exit(1)


if __name__ == "__main__":
    app()
