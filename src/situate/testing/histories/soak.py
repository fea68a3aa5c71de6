"""Common parts of long runs: the number of runs, the totals of a commit, and progress reports.

Each kind of run defines its own histories and breaches.

    python -m situate.testing.histories.soak NAME COMMAND...

runs a command unless it already succeeded for the present commit. A soak uses this for its first step, and does not
repeat that step when it continues.
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
from typing import Final, Self

import msgspec

HISTORIES: Final = 100_000
"""Default number of histories for each commit."""
FOLDER = Path(".soak")
"""Folder of totals and failed histories, in the working directory and ignored by git."""
PROGRESS_S = 10.0
"""Seconds between two progress lines."""


class SoakTotals(msgspec.Struct, rename="camel"):
    """Totals of all runs on one commit. Subclasses add their counters.

    The prefix of the file name separates the files of different kinds of runs.
    """

    commit: str
    next_seed: int = 0

    def mark_played(self, seed: int) -> None:
        """Let the next run begin after this seed."""
        self.next_seed = max(self.next_seed, seed + 1)

    def save(self, prefix: str, folder: Path = FOLDER) -> None:
        """Save atomically. A process that is killed during the write leaves the previous file."""
        folder.mkdir(exist_ok=True)
        kept = _totals_file(self.commit, prefix, folder)
        partial = kept.with_suffix(".partial")
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1))
        partial.replace(kept)

    @classmethod
    def load(cls, commit: str, prefix: str, folder: Path = FOLDER) -> Self:
        """Load the totals of earlier runs. Return empty totals if there is no file or it cannot be read."""
        try:
            return msgspec.json.decode(_totals_file(commit, prefix, folder).read_bytes(), type=cls)
        except (FileNotFoundError, msgspec.MsgspecError):
            return cls(commit)

    @classmethod
    def load_or_start(cls, from_seed: int | None, prefix: str) -> Self:
        """Return the totals to continue from.

        Without `from_seed` they are those of the present commit. With it they start empty at that seed, and the caller
        does not save them.
        """
        commit = current_commit()
        return cls.load(commit, prefix) if from_seed is None else cls(commit, next_seed=from_seed)


def _totals_file(commit: str, prefix: str, folder: Path) -> Path:
    return folder / f"{prefix}{commit}.json"


def progress_line(what: str, done: int, before: int, wanted: int, spent_s: float, left_s: float = math.inf) -> str:
    """Format progress: done and wanted, speed, and time to go. Earlier runs did `before` of them.

    `left_s` is the time left for this run. It may end before all are done.
    """
    speed = (done - before) / spent_s if spent_s > 0 else 0.0
    rest_s = (wanted - done) / speed if speed > 0 else math.inf
    said = f"{spent_s:6.0f} s  {done:,} of {wanted:,} {what}, {speed:.2f} a second"
    if rest_s < math.inf:
        said += f", {duration_text(rest_s)} to go"
    if left_s < rest_s:
        said += f" (this run: {duration_text(left_s)})" if left_s > 0 else " (the time of this run is over)"
    return said


def duration_text(seconds: float) -> str:
    """Format a duration in at most two units."""
    minutes = round(seconds / 60.0)
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C within the context, so that the run ends its work and saves its totals."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def current_commit() -> str:
    """Return the short name of the checked-out commit, with a digest of the changes under `src` if there are any."""

    def git(*words: str) -> str:
        done = subprocess.run(  # noqa: S603  # fixed words, no shell
            ("git", *words),  # noqa: S607  # git is found by the user's PATH
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


def run_once_per_commit(name: str, command: Sequence[str], folder: Path = FOLDER) -> int:
    """Return the exit code of a command.

    Skip the command and return 0 if it succeeded before for the present commit.
    """
    held = folder / f"{name}-{current_commit()}.held"
    if held.exists():
        print(f"{name}: succeeded before for {held.stem.removeprefix(f'{name}-')}", flush=True)
        return 0
    code = subprocess.run(command, check=False).returncode  # noqa: S603  # the caller's own words, no shell
    if code == 0:
        folder.mkdir(exist_ok=True)
        held.touch()
    return code


if __name__ == "__main__":
    sys.exit(run_once_per_commit(sys.argv[1], sys.argv[2:]))
