"""`python -m tests.e2e.differential`: seeds beside the real kube-scheduler, for as long as one likes."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from situate.testing.histories import soak as soaking
from situate.testing.histories.soak import FOLDER
from tests.controlplane.build import build
from tests.controlplane.plane import ControlPlane
from tests.e2e.differential.cases import Case, Played
from tests.e2e.differential.comparing import differences, rarely, table
from tests.e2e.differential.extenders import ExtenderServer
from tests.e2e.differential.ours import Ours
from tests.e2e.differential.play import PODS_EACH, play
from tests.e2e.differential.theirs import SCHEDULER, KubeScheduler, options

app = typer.Typer(add_completion=False, no_args_is_help=True, help="The engine beside the real kube-scheduler.")

PREFIX = "kube-scheduler-"
"""Prefix of the file names of totals."""
_PODS = 20_000
_ENOUGH_TO_JUDGE = 2000
"""So many pods show everything often enough, whichever seeds they are of."""


class Totals(soaking.SoakTotals):
    """What has been compared of one commit."""

    counts: dict[str, int] = msgspec.field(default_factory=dict)
    clusters: int = 0

    @property
    def pods(self) -> int:
        return self.counts.get("pods", 0)

    def add(self, seed: int, played: Played) -> None:
        """One more cluster without a difference."""
        self.mark_played(seed)
        self.clusters += 1
        self.counts = dict(Counter(self.counts) + played.counts)


@contextmanager
def _kube_scheduler(*flags: str) -> Iterator[tuple[KubeScheduler, ControlPlane]]:
    """Ends with this process, also if that is told to end."""
    with soaking.sigterm_as_interrupt(), ExtenderServer() as extenders:
        wanted = options(extenders)
        wanted = replace(wanted, flags={**wanted.flags, SCHEDULER: (*wanted.flags[SCHEDULER], *flags)})
        programs = build(wanted.names(), say=typer.echo)
        with (
            tempfile.TemporaryDirectory(prefix="situate-differential-") as folder,
            ControlPlane(Path(folder), wanted, programs=programs) as plane,
        ):
            scheduler = KubeScheduler(plane, extenders)
            try:
                yield scheduler, plane
            finally:
                scheduler.close()


@app.command()
def soak(
    pods: Annotated[int, typer.Option(min=1, help="How many to compare, those of earlier runs included.")] = _PODS,
    histories: Annotated[
        int | None, typer.Option(min=1, help="Of so many clusters at most, those of earlier runs included.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after that time, however many there were.")] = None,
    from_seed: Annotated[
        int | None,
        typer.Option(
            "--from", help="Compare so many from this seed on, and keep no totals; else where the last ended."
        ),
    ] = None,
) -> None:
    """Play seed after seed; totals are kept per commit. Ends at the first difference, with a file to replay it."""
    totals = Totals.load_or_start(from_seed, PREFIX)
    goal = Goal(pods, histories)
    if not goal.reached(totals):
        typer.echo(f"commit {totals.commit}: {goal.said(totals)} so far; from seed {totals.next_seed} on")
        before = copy(totals)
        with _kube_scheduler() as (scheduler, _):
            began = told = time.monotonic()
            end = math.inf if minutes is None else began + 60.0 * minutes
            while not goal.reached(totals) and time.monotonic() < end:
                seed = totals.next_seed
                played = play(seed, scheduler)
                for case in played.cases:
                    _tell(case)
                if played.cases:
                    raise typer.Exit(1)
                totals.add(seed, played)
                if from_seed is None:
                    totals.save(PREFIX)
                if (now := time.monotonic()) >= told + soaking.PROGRESS_S:
                    told = now
                    typer.echo(f"{goal.progress(totals, before, now - began, end - now)}  no difference")
        typer.echo("\n".join(table(totals.counts)))
    reached = "all that was asked for" if goal.reached(totals) else "the same command goes on"
    typer.echo(f"commit {totals.commit}: {goal.said(totals)}, no difference; {reached}")
    if totals.pods >= _ENOUGH_TO_JUDGE and (few := rarely(totals.counts)):
        typer.echo(f"too seldom: {', '.join(few)}")
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class Goal:
    """Where a soak ends: whichever comes first."""

    pods: int
    clusters: int | None

    def reached(self, totals: Totals) -> bool:
        return totals.pods >= self.pods or (self.clusters is not None and totals.clusters >= self.clusters)

    def said(self, totals: Totals) -> str:
        of = "" if self.clusters is None else f" of {self.clusters:,}"
        return f"{totals.pods:,} of {self.pods:,} pods in {totals.clusters:,}{of} clusters"

    def progress(self, totals: Totals, before: Totals, spent_s: float, left_s: float) -> str:
        """In whichever of the two is nearer its end."""
        if self.clusters is not None and totals.clusters * self.pods > totals.pods * self.clusters:
            return soaking.progress_line("clusters", totals.clusters, before.clusters, self.clusters, spent_s, left_s)
        return soaking.progress_line("pods", totals.pods, before.pods, self.pods, spent_s, left_s)


@app.command("play")
def play_one(seed: int, pods: int = PODS_EACH) -> None:
    """Play one seed and tell every difference."""
    with _kube_scheduler() as (scheduler, _):
        played = play(seed, scheduler, pods)
    for case in played.cases:
        _tell(case)
    typer.echo("\n".join(table(played.counts)))
    if played.cases:
        raise typer.Exit(1)


@app.command()
def replay(
    file: Path,
    real: Annotated[bool, typer.Option(help="Ask the real kube-scheduler again, too.")] = False,
    verbosity: Annotated[int, typer.Option(help="Of kube-scheduler's log, which is then printed.")] = 0,
) -> None:
    """Ask about a case that `soak` has written once more."""
    case = Case.from_json(json.loads(file.read_text()))
    theirs = case.theirs
    with ExtenderServer() as extenders:
        answer = Ours(case.cluster, extenders.url).told_about(case.pod)
    if real:
        with _kube_scheduler(*([f"--v={verbosity}"] if verbosity else [])) as (scheduler, plane):
            theirs = scheduler.ask(case.cluster, case.pod)
            if verbosity:
                typer.echo((plane.folder / f"{SCHEDULER}.log").read_text())
    typer.echo(f"kube-scheduler: {json.dumps(theirs.as_json(), indent=1)}")
    typer.echo(f"situate: {json.dumps(answer.as_json() if answer is not None else None, indent=1)}")
    found = differences(theirs, answer)
    typer.echo("\n".join(found) or "no difference")
    if found:
        raise typer.Exit(1)


def _tell(case: Case) -> None:
    """What is different, and where to look again."""
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"kube-scheduler-{case.seed}-{case.pod['metadata']['name']}.json"
    file.write_text(json.dumps(case.as_json(), indent=1))
    typer.echo(f"seed {case.seed}, {case.pod['metadata']['namespace']}/{case.pod['metadata']['name']}:")
    for difference in case.differences:
        typer.echo(difference)
    typer.echo(f"python -m tests.e2e.differential replay {file}")


if __name__ == "__main__":
    app()
