"""Run `python -m situate.testing.sharding`: play histories of sharding, or explore its small worlds.

With `decisions` before the verb, it plays histories of the decisions alone.
"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from situate.testing.histories.play import command_line
from situate.testing.sharding.exploring.worlds import LARGE, QUICK
from situate.testing.sharding.soak import DECISIONS, PRODUCT

app = command_line(PRODUCT)
app.add_typer(command_line(DECISIONS), name="decisions", help="Histories of what is decided alone, many times as fast.")


@app.command("explore")
def explore_worlds(
    large: Annotated[bool, typer.Option(help="The larger worlds too: minutes, and gigabytes.")] = False,
) -> None:
    """Goes through every order of events of small worlds (B12). Ends at the first breach, with the way to it."""
    for world in (*QUICK, *(LARGE if large else ())):
        began = time.process_time()
        found = world.explore(frozenset())
        said = found.breach or world.missing(found.ends)
        spent_s = time.process_time() - began
        typer.echo(f"{world.name}: {found.states} states, {found.moves} moves, {spent_s:.1f} s: {said or 'all holds'}")
        if said:
            for line in found.path:
                typer.echo(f"  {line}")
            raise typer.Exit(1)


if __name__ == "__main__":
    app()
