"""What long runs have in common: where they go on, and what they have counted, kept in a file for each commit.

What is played, for how long, and what a breach looks like is each run's own business.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import ClassVar, Self

import msgspec

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
    def _file(cls, commit: str, folder: Path) -> Path:
        return folder / f"{cls.PREFIX}{commit}.json"


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
