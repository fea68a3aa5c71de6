"""`python -m tests.e2e.differential`: seeds beside the real kube-scheduler, for as long as one likes."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from situate.testing.vpod.soak import FOLDER, present_commit
from tests.controlplane.build import build
from tests.controlplane.plane import ControlPlane
from tests.e2e.differential.comparing import differences, rarely, table
from tests.e2e.differential.ours import Ours
from tests.e2e.differential.play import PODS_EACH, Case, play
from tests.e2e.differential.theirs import OPTIONS, SCHEDULER, KubeScheduler

app = typer.Typer(add_completion=False, no_args_is_help=True, help="The engine beside the real kube-scheduler.")

_PODS = 20_000
_PROGRESS_S = 10.0


class Totals(msgspec.Struct, rename="camel"):
    """What has been compared of one commit."""

    commit: str
    next_seed: int = 0
    counts: dict[str, int] = {}

    @classmethod
    def load(cls, commit: str) -> Totals:
        """As kept by an earlier run, or none yet; a file that cannot be read counts as none."""
        try:
            return msgspec.json.decode(_kept(commit).read_bytes(), type=cls)
        except (FileNotFoundError, msgspec.MsgspecError):
            return cls(commit)

    def save(self) -> None:
        FOLDER.mkdir(exist_ok=True)
        partial = _kept(self.commit).with_suffix(".partial")
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1))
        partial.replace(_kept(self.commit))


def _kept(commit: str) -> Path:
    return FOLDER / f"kube-scheduler-{commit}.json"


@contextmanager
def _kube_scheduler(*flags: str) -> Iterator[tuple[KubeScheduler, ControlPlane]]:
    options = replace(OPTIONS, flags={**OPTIONS.flags, SCHEDULER: (*OPTIONS.flags[SCHEDULER], *flags)})
    programs = build(options.names(), say=typer.echo)
    with (
        tempfile.TemporaryDirectory(prefix="situate-differential-") as folder,
        ControlPlane(Path(folder), options, programs=programs) as plane,
    ):
        scheduler = KubeScheduler(plane)
        try:
            yield scheduler, plane
        finally:
            scheduler.close()


@app.command()
def soak(
    pods: Annotated[int, typer.Option(min=1, help="How many to compare, those of earlier runs included.")] = _PODS,
    minutes: Annotated[float | None, typer.Option(help="Stop after that time, however many there were.")] = None,
    from_seed: Annotated[int | None, typer.Option("--from", help="First seed; else where the last run ended.")] = None,
) -> None:
    """Play seed after seed; totals are kept per commit. Ends at the first difference, with a file to replay it."""
    totals = Totals.load(present_commit())
    seed = totals.next_seed if from_seed is None else from_seed
    began = told = time.monotonic()
    end = math.inf if minutes is None else began + 60.0 * minutes
    typer.echo(f"commit {totals.commit}: {totals.counts.get('pods', 0)} pods compared so far; from seed {seed} on")
    with _kube_scheduler() as (scheduler, _):
        while totals.counts.get("pods", 0) < pods and time.monotonic() < end:
            played = play(seed, scheduler)
            for case in played.cases:
                _tell(case)
            if played.cases:
                raise typer.Exit(1)
            totals.counts = dict(Counter(totals.counts) + played.counts)
            seed += 1
            totals.next_seed = max(totals.next_seed, seed)
            totals.save()
            if time.monotonic() >= told + _PROGRESS_S:
                told = time.monotonic()
                typer.echo(f"{told - began:6.0f} s  seed {seed}  {totals.counts['pods']} pods  no difference")
    typer.echo("\n".join(table(totals.counts)))
    if totals.counts.get("pods", 0) >= 500 and (few := rarely(totals.counts)):
        typer.echo(f"too seldom: {', '.join(few)}")
        raise typer.Exit(1)


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
    ours = Ours(case.cluster)
    ours.set_pod(case.pod)
    answer = ours.answer(case.pod["metadata"]["uid"])
    theirs = case.theirs
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
