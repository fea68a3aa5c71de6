"""`python -m situate.testing.vpod`: plays histories of vpod, one or many."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from situate.testing.soaking import FOLDER, PROGRESS_S, present_commit
from situate.testing.vpod.history import History, generate
from situate.testing.vpod.run import Played, play, shortened
from situate.testing.vpod.soak import Totals, missing, played_in_order, table

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Histories of vpod under faults, on virtual time.")

_MINUTES = 10.0


@app.command("play")
def play_one(seed: int) -> None:
    """Play the history of one seed and say what happened in it."""
    history = generate(seed)
    _tell(f"seed {seed}", play(history), history)


@app.command()
def replay(file: Path) -> None:
    """Play a history from a file that `soak` or `play` has written."""
    try:
        history = History.from_json(file.read_bytes())
    except OSError as problem:
        raise typer.BadParameter(f"{file}: {problem.strerror}") from None
    except msgspec.MsgspecError as problem:
        raise typer.BadParameter(f"{file} is no history: {problem}") from None
    _tell(str(file), play(history), history)


@app.command()
def soak(
    minutes: Annotated[float | None, typer.Option(help="How long to go on; 10 unless --histories is given.")] = None,
    histories: Annotated[int | None, typer.Option(min=1, help="Play the seeds below this number.")] = None,
    from_seed: Annotated[int | None, typer.Option("--from", help="First seed; else where the last run ended.")] = None,
    jobs: Annotated[int, typer.Option(help="Histories at once.")] = os.cpu_count() or 1,
) -> None:
    """Play seed after seed; totals are kept per commit. Ends at the first history that does not hold."""
    totals = Totals.load(present_commit())
    first = totals.next_seed if from_seed is None else from_seed
    began = told = time.monotonic()
    if minutes is None and histories is None:
        minutes = _MINUTES
    end = math.inf if minutes is None else began + 60.0 * minutes
    beyond = math.inf if histories is None else histories
    until = []
    if minutes is not None:
        until.append(f"for {minutes:g} minutes")
    if histories is not None:
        until.append(f"up to seed {histories - 1}")
    typer.echo(
        f"commit {totals.commit}: {totals.histories} histories so far; from seed {first} on, {' and '.join(until)}"
    )
    for seed, played in played_in_order(first, jobs, lambda seed: seed < beyond and time.monotonic() < end):
        if played.breach is not None:
            _tell(f"seed {seed}", played, generate(seed))
        totals.add(seed, played)
        now = time.monotonic()
        if now >= told + PROGRESS_S:
            told = now
            totals.save()
            speed = (seed + 1 - first) / (now - began)
            typer.echo(f"{now - began:6.0f} s  seed {seed}  {speed:.2f} histories a second  no breach")
    totals.save()
    hours = totals.virtual_s / 3600.0
    typer.echo(f"{totals.histories} histories, {totals.writes} writes, {hours:.0f} virtual hours, no breach")
    for line in table(totals.happened):
        typer.echo(f"  {line}")
    if (never := missing(totals.happened)) and totals.histories >= 100:
        typer.echo(f"never happened: {', '.join(never)}")
        raise typer.Exit(1)


def _tell(name: str, played: Played, history: History) -> None:
    """How one history went; a breach is shortened, written to a file, and ends the command."""
    if played.breach is None:
        typer.echo(f"{name}: {played.writes} writes in {played.virtual_s:.0f} virtual seconds, no breach")
        for line in table(played.happened):
            typer.echo(f"  {line}")
        return
    typer.echo(f"{name}, step {played.at_step}: {played.breach}")
    typer.echo("looking for a shorter history that fails")
    short = shortened(history)
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"seed-{history.seed}.json"
    file.write_bytes(short.to_json())
    typer.echo(f"{len(short.steps)} steps: python -m situate.testing.vpod replay {file}")
    raise typer.Exit(1)


if __name__ == "__main__":
    app()
