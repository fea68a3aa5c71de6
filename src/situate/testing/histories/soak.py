"""What long runs have in common: how much they play, where they go on, what they have counted, how far they are.

What is played and what a breach looks like is each run's own business.

    python -m situate.testing.histories.soak NAME COMMAND...

runs a command unless it has held for the present commit: what a soak begins with, and need not repeat when it goes on.
"""

from __future__ import annotations

import hashlib
import math
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final, Self

import msgspec

HISTORIES: Final = 100_000
"""Of each commit, if nothing else is asked for."""
FOLDER = Path(".soak")
"""Beside the checkout, and not in git."""
PROGRESS_S = 10.0
"""Between two lines that say how far a run is."""


class Totals(msgspec.Struct, rename="camel"):
    """Of what has been played of one commit; whoever plays adds what is counted."""

    PREFIX: ClassVar[str] = ""
    """Of the file's name, so that runs of different kinds keep out of each other's way."""

    commit: str
    next_seed: int = 0

    def played(self, seed: int) -> None:
        """The next run begins behind it."""
        self.next_seed = max(self.next_seed, seed + 1)

    def save(self, folder: Path = FOLDER) -> None:
        """A run that is killed meanwhile leaves the former file."""
        folder.mkdir(exist_ok=True)
        kept = self._file(self.commit, folder)
        partial = kept.with_suffix(".partial")
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1))
        partial.replace(kept)

    @classmethod
    def load(cls, commit: str, folder: Path = FOLDER) -> Self:
        """As kept by an earlier run, or none yet; a file that cannot be read counts as none."""
        try:
            return msgspec.json.decode(cls._file(commit, folder).read_bytes(), type=cls)
        except (FileNotFoundError, msgspec.MsgspecError):
            return cls(commit)

    @classmethod
    def to_go_on_with(cls, from_seed: int | None) -> Self:
        """Those of the present commit; with a first seed of one's own, others that begin there and are not kept."""
        commit = present_commit()
        return cls.load(commit) if from_seed is None else cls(commit, next_seed=from_seed)

    @classmethod
    def _file(cls, commit: str, folder: Path) -> Path:
        return folder / f"{cls.PREFIX}{commit}.json"


def progress(what: str, done: int, before: int, wanted: int, spent_s: float, left_s: float = math.inf) -> str:
    """How many of how many, how fast, and how long it takes; `before` of them are of earlier runs.

    `left_s` is what the run has of its own time: less than that if it ends before all are done.
    """
    speed = (done - before) / spent_s if spent_s > 0 else 0.0
    rest_s = (wanted - done) / speed if speed > 0 else math.inf
    said = f"{spent_s:6.0f} s  {done:,} of {wanted:,} {what}, {speed:.2f} a second"
    if rest_s < math.inf:
        said += f", {duration(rest_s)} to go"
    if left_s < rest_s:
        said += f" (this run: {duration(left_s)})" if left_s > 0 else " (its time is over)"
    return said


def duration(seconds: float) -> str:
    """In two units at most."""
    minutes = round(seconds / 60.0)
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Within, being told to end is like Ctrl-C: what was begun is ended too, and what was counted is kept."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def present_commit() -> str:
    """Short name of what is checked out; where sources differ from it, with a digest of what they are."""

    def git(*words: str) -> str:
        done = subprocess.run(  # noqa: S603  # fixed words, no shell
            ("git", *words),  # noqa: S607  # git is where the user has it
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    try:
        name = git("rev-parse", "--short", "HEAD")
        if not git("status", "--porcelain", "--", "src"):
            return name
        changes = hashlib.sha256(git("diff", "--binary", "HEAD", "--", "src").encode())
        for file in git("ls-files", "--others", "--exclude-standard", "--", "src").splitlines():
            changes.update(file.encode() + b"\0" + Path(file).read_bytes())
        return f"{name}-changed-{changes.hexdigest()[:8]}"
    except (OSError, subprocess.CalledProcessError):
        return "unversioned"


def once(name: str, command: Sequence[str], folder: Path = FOLDER) -> int:
    """The exit code of a command, which is not run if it was 0 for the present commit before."""
    held = folder / f"{name}-{present_commit()}.held"
    if held.exists():
        print(f"{name}: has held for {held.stem.removeprefix(f'{name}-')}", flush=True)
        return 0
    code = subprocess.run(command, check=False).returncode  # noqa: S603  # the caller's own words, no shell
    if code == 0:
        folder.mkdir(exist_ok=True)
        held.touch()
    return code


if __name__ == "__main__":
    sys.exit(once(sys.argv[1], sys.argv[2:]))
