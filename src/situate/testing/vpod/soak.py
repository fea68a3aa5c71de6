"""Histories for as long as one likes: seed after seed on every core, resumable, with totals kept for each commit."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import msgspec

from situate.testing.vpod.history import FAULTS, generate
from situate.testing.vpod.run import Played, play

FOLDER = Path(".soak")
"""Beside the checkout, and not in git."""


class Totals(msgspec.Struct, rename="camel"):
    """What has been played of one commit."""

    commit: str
    next_seed: int = 0
    histories: int = 0
    writes: int = 0
    virtual_s: float = 0.0
    happened: dict[str, int] = {}

    def add(self, played: Played) -> None:
        """One more history that held."""
        self.histories += 1
        self.writes += played.writes
        self.virtual_s += played.virtual_s
        self.happened = dict(Counter(self.happened) + played.happened)

    def save(self, folder: Path = FOLDER) -> None:
        folder.mkdir(exist_ok=True)
        kept = folder / f"{self.commit}.json"
        partial = kept.with_suffix(".partial")
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1))
        partial.replace(kept)

    @classmethod
    def load(cls, commit: str, folder: Path = FOLDER) -> Totals:
        """As kept by an earlier run, or none yet; a file that cannot be read counts as none."""
        try:
            return msgspec.json.decode((folder / f"{commit}.json").read_bytes(), type=cls)
        except (FileNotFoundError, msgspec.MsgspecError):
            return cls(commit)


def present_commit() -> str:
    """Short name of what is checked out, with `-changed` where sources differ from it."""

    def git(*words: str) -> str:
        done = subprocess.run(  # noqa: S603  # fixed words, no shell
            ("git", *words),  # noqa: S607  # git is where the user has it
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "src")
        return git("rev-parse", "--short", "HEAD") + ("-changed" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unversioned"


def played_in_order(first: int, jobs: int, go_on: Callable[[int], bool]) -> Iterator[tuple[int, Played]]:
    """Seeds from `first` on with how they went, in order, on so many processes, until `go_on` says no to a seed."""
    with ProcessPoolExecutor(jobs) as pool:
        under_way: dict[int, Future[Played]] = {}
        begun = told = first
        try:
            while go_on(begun) or under_way:
                while go_on(begun) and len(under_way) < 4 * jobs:
                    under_way[begun] = pool.submit(play_seed, begun)
                    begun += 1
                wait(under_way.values(), timeout=1.0, return_when=FIRST_COMPLETED)
                while told in under_way and under_way[told].done():
                    yield told, under_way.pop(told).result()
                    told += 1
        finally:
            for future in under_way.values():
                future.cancel()


def play_seed(seed: int) -> Played:
    return play(generate(seed))


def table(happened: Counter[str] | dict[str, int]) -> list[str]:
    """How often each row of the fault table occurred, a line each."""
    counts: Counter[str] = Counter(happened)
    lines = []
    for row, names in FAULTS.items():
        each = ", ".join(f"{name} {counts[name]}" for name in names)
        lines.append(f"{row}: {each}")
    return lines


def missing(happened: Counter[str] | dict[str, int]) -> list[str]:
    """Names of the fault table that never occurred."""
    counts: dict[str, Any] = dict(happened)
    return [name for names in FAULTS.values() for name in names if not counts.get(name)]
