"""Command line of a product's histories: play one seed, replay a file, or play seed after seed.

The product defines its histories and how to play them. Long runs use every core. They continue where the last run of
the same commit ended, until the requested number of histories is played, and save their totals. A history with a breach
is shortened and written to a file for `replay`.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Protocol, TypeVar

import msgspec
import typer

from situate.sim.shrink import shrink
from situate.testing.histories import soak as soaking
from situate.testing.histories.soak import FOLDER, HISTORIES, PROGRESS_S, progress_line, sigterm_as_interrupt

_COVERAGE_HISTORIES = 100
"""Number of histories after which every name in a product's fault table must have occurred."""


@dataclass(slots=True)
class HistoryResult:
    """The result of one history."""

    breach: str | None = None
    """The first invariant that did not hold, or the reason why the history could not end."""
    at_step: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    """How often each kind of step, network fault, action and Event occurred."""
    writes: int = 0
    virtual_s: float = 0.0
    digest: str = ""
    """A digest of all writes. Equal histories have equal digests."""
    last_records: Sequence[str] = ()
    """The last records before a breach, one per line, if the product records."""


class HistoryTotals(soaking.SoakTotals):
    """Totals of all histories played on one commit."""

    histories: int = 0
    writes: int = 0
    virtual_s: float = 0.0
    happened: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, seed: int, played: HistoryResult) -> None:
        """Add one history that ended without a breach."""
        self.mark_played(seed)
        self.histories += 1
        self.writes += played.writes
        self.virtual_s += played.virtual_s
        self.happened = dict(Counter(self.happened) + played.happened)


class AnyHistory(Protocol):
    """A history that can be replayed. It must be a struct."""

    @property
    def seed(self) -> int: ...

    @property
    def steps(self) -> Sequence[Any]: ...

    def to_json(self) -> bytes: ...


H = TypeVar("H", bound=AnyHistory)


@dataclass(frozen=True, slots=True)
class Product(Generic[H]):
    """The functions that define a product's histories.

    They must be module-level functions or methods of module-level classes: worker processes call them.
    """

    module: str
    """Module of the command line, as `python -m` takes it."""
    generate: Callable[[int], H]
    """Generate the history of a seed."""
    read: Callable[[bytes], H]
    """Read the output of `to_json`. Raises `msgspec.MsgspecError` for any other input."""
    play: Callable[[H], HistoryResult]
    faults: Mapping[str, tuple[str, ...]]
    """Rows of the product's fault table, each with the names that must occur."""
    prefix: str = ""
    """Prefix of the file names of its totals and breaches."""

    def play_seed(self, seed: int) -> HistoryResult:
        return self.play(self.generate(seed))

    def shorten(self, history: H, *, most_tries: int = 200) -> H:
        """Return a shorter history that still fails."""
        return shorten_history(history, self.play, most_tries)

    def fault_table(self, happened: Mapping[str, int]) -> list[str]:
        """Format how often each row of the fault table occurred, one line per row."""
        return [
            f"{row}: " + ", ".join(f"{name} {happened.get(name, 0)}" for name in names)
            for row, names in self.faults.items()
        ]

    def empty_rows(self, happened: Mapping[str, int]) -> list[str]:
        """Return the rows of the fault table without any occurrence."""
        return [row for row, names in self.faults.items() if not any(happened.get(name) for name in names)]

    def missing_names(self, happened: Mapping[str, int]) -> list[str]:
        """Return the names in the fault table that never occurred."""
        return [name for names in self.faults.values() for name in names if not happened.get(name)]


def shorten_history(history: H, play: Callable[[H], HistoryResult], most_tries: int) -> H:
    """Return a shorter history that still fails when `play` plays it."""

    def of(steps: Sequence[Any]) -> H:
        return msgspec.structs.replace(history, steps=tuple(steps))  # type: ignore[type-var]  # histories are structs

    return of(shrink(history.steps, lambda steps: play(of(steps)).breach is not None, most_tries=most_tries))


def command_line(product: Product[H]) -> typer.Typer:
    """Build the command line with `play`, `replay` and `soak`."""
    name = product.module.rpartition(".")[2]
    app = typer.Typer(
        add_completion=False, no_args_is_help=True, help=f"Histories of {name} under faults, on virtual time."
    )

    @app.command("play")
    def play_one(seed: int) -> None:
        """Play the history of one seed and print its events."""
        history = product.generate(seed)
        _report_result(product, f"seed {seed}", product.play(history), history)

    @app.command()
    def replay(file: Path) -> None:
        """Play a history from a file that `soak` or `play` has written."""
        try:
            history = product.read(file.read_bytes())
        except OSError as problem:
            raise typer.BadParameter(f"{file}: {problem.strerror}") from None
        except msgspec.MsgspecError as problem:
            raise typer.BadParameter(f"{file} is not a history: {problem}") from None
        _report_result(product, str(file), product.play(history), history)

    @app.command()
    def soak(
        minutes: Annotated[
            float | None, typer.Option(help="Minutes after which soak ends, even if histories are left.")
        ] = None,
        histories: Annotated[
            int, typer.Option(min=1, help="Number of histories to play for the current commit, including earlier runs.")
        ] = HISTORIES,
        from_seed: Annotated[
            int | None,
            typer.Option(
                "--from", help="First seed; soak then stores no totals. Default: the seed after the last run."
            ),
        ] = None,
        jobs: Annotated[int, typer.Option(min=1, help="Number of histories to play at one time.")] = os.cpu_count()
        or 1,
    ) -> None:
        """Play seed after seed; totals are kept per commit. Ends at the first history that does not hold."""
        with sigterm_as_interrupt():
            _soak(product, minutes, histories, from_seed, jobs)

    return app


def _soak(product: Product[H], minutes: float | None, histories: int, from_seed: int | None, jobs: int) -> None:
    totals = HistoryTotals.load_or_start(from_seed, product.prefix)
    before, first = totals.histories, totals.next_seed
    beyond = first + max(0, histories - before)
    began = told = time.monotonic()
    end = math.inf if minutes is None else began + 60.0 * minutes
    if first < beyond:
        typer.echo(f"commit {totals.commit}: {before:,} of {histories:,} histories so far; next seed {first}")
    results = _play_in_order(product.play_seed, range(first, beyond), jobs, lambda: time.monotonic() < end)
    try:
        for seed, played in results:
            if played.breach is not None:
                _report_result(product, f"seed {seed}", played, product.generate(seed))
            totals.add(seed, played)
            now = time.monotonic()
            if now >= told + PROGRESS_S:
                told = now
                if from_seed is None:
                    totals.save(product.prefix)
                far = progress_line("histories", totals.histories, before, histories, now - began, end - now)
                typer.echo(f"{far}  no breach")
    finally:
        results.close()
        if from_seed is None:
            totals.save(product.prefix)
    _print_totals(product, totals, histories, before)


def _print_totals(product: Product[H], totals: HistoryTotals, histories: int, before: int) -> None:
    """Print the totals. If no history was left to play, print one line only. Exit with 1 if a name never occurred."""
    left = histories - totals.histories
    typer.echo(
        f"commit {totals.commit}: {totals.histories:,} histories, {totals.writes:,} writes, "
        f"{totals.virtual_s / 3600.0:,.0f} virtual hours, no breach; "
        + (f"{left:,} are left, and the same command continues" if left > 0 else f"all {histories:,} are played")
    )
    if totals.histories > before:
        for line in product.fault_table(totals.happened):
            typer.echo(f"  {line}")
    if (never := product.missing_names(totals.happened)) and totals.histories >= _COVERAGE_HISTORIES:
        typer.echo(f"never happened: {', '.join(never)}")
        raise typer.Exit(1)


def _play_in_order(
    play_seed: Callable[[int], HistoryResult], seeds: range, jobs: int, in_time: Callable[[], bool]
) -> Generator[tuple[int, HistoryResult]]:
    """Play the seeds on `jobs` processes and yield their results in seed order.

    When the time is over, the histories already running end and no further one begins.
    """
    if not seeds or not in_time():
        return
    with ProcessPoolExecutor(jobs, initializer=_ignore_interrupts) as pool:
        under_way: dict[int, Future[HistoryResult]] = {}
        begun = told = seeds.start
        try:
            while under_way or (begun < seeds.stop and in_time()):
                while begun < seeds.stop and len(under_way) < 4 * jobs and in_time():
                    under_way[begun] = pool.submit(play_seed, begun)
                    begun += 1
                wait(under_way.values(), timeout=1.0, return_when=FIRST_COMPLETED)
                while told in under_way and under_way[told].done():
                    yield told, under_way.pop(told).result()
                    told += 1
                if not in_time():
                    while under_way and under_way[begun - 1].cancel():
                        begun -= 1
                        del under_way[begun]
        finally:
            for future in under_way.values():
                future.cancel()


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C in a worker. Ctrl-C reaches every process of a terminal, and only the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _report_result(product: Product[H], name: str, played: HistoryResult, history: H) -> None:
    """Print the result of one history. Shorten a breach, write it to a file and exit with 1."""
    if played.breach is None:
        typer.echo(f"{name}: {played.writes} writes in {played.virtual_s:.0f} virtual seconds, no breach")
        for line in product.fault_table(played.happened):
            typer.echo(f"  {line}")
        return
    typer.echo(f"{name}, step {played.at_step}: {played.breach}")
    for line in played.last_records:
        typer.echo(f"  {line}")
    typer.echo("searching for a shorter history that fails")
    short = product.shorten(history)
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{product.prefix}seed-{history.seed}.json"
    file.write_bytes(short.to_json())
    typer.echo(f"{len(short.steps)} steps: python -m {product.module} replay {file}")
    raise typer.Exit(1)
