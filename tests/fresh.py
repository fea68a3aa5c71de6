"""`python -m tests.fresh`: what a new user waits for. The demo, `make test` and `make verify` in a clean clone with an
empty home, each with its time beside its limit.

The clone is of the last commit; what is not committed is left out. Nothing that the user has cached is found there:
pip, Go and the servers of the tests begin with nothing. `--only` chooses some of the steps; needs Python alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEPS = ("demo", "test", "verify")
MINUTE_S = 60.0
_CACHES = ("GOCACHE", "GOMODCACHE", "GOPATH", "KUBEBUILDER_ASSETS", "PIP_CACHE_DIR", "VIRTUAL_ENV", "PYTHONPATH")
"""Variables that would lead to what is cached or installed already, beside those of XDG."""
_OWN_OPTIONS = ("ARGS", "DIRS")
"""Variables that make exports if they are on its command line. `ARGS` of `make fresh` are not those of `make test`."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One thing a new user waits for: its time in seconds, and what it may take on two cores."""

    name: str
    spent_s: float
    limit_s: float

    def __str__(self) -> str:
        verdict = "ok" if self.spent_s <= self.limit_s else "TOO SLOW"
        return f"{self.name:32} {self.spent_s:7.0f} s  of {self.limit_s:5.0f} s  {verdict}"


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command went: seconds to the first chapter that it printed, if any, and to its end."""

    code: int
    first_chapter_s: float
    spent_s: float


class Failed(Exception):
    """A step did not end with 0; the text names it."""


def environment(home: Path, inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Of a user who has just come: nothing that is cached, configured or installed is found."""
    kept = {
        name: value
        for name, value in inherited.items()
        if name not in (*_CACHES, *_OWN_OPTIONS) and not name.startswith(("XDG_", "KUBE", "SITUATE", "MAKE", "MFLAGS"))
    }
    return kept | {"HOME": str(home)}


def run(command: Sequence[str], folder: Path, home: Path) -> Ran:
    """The command, its output passed on line by line."""
    began = time.monotonic()
    first: float | None = None
    with subprocess.Popen(command, cwd=folder, env=environment(home), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if first is None and line.startswith("1. "):
                first = time.monotonic() - began
            print(line, end="", flush=True)
    spent = time.monotonic() - began
    return Ran(process.returncode, spent if first is None else first, spent)


def measure(steps: Sequence[str]) -> list[Measured]:
    """Each step in the order of `STEPS`. Raises `Failed`."""
    measured: list[Measured] = []
    spent: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="situate-fresh-") as folder:
        clone, home = Path(folder, "clone"), Path(folder, "home")
        home.mkdir()
        subprocess.run(("git", "clone", "--quiet", str(ROOT), str(clone)), check=True)
        for step in (step for step in STEPS if step in steps):
            command = ("make", step, "ARGS=--once") if step == "demo" else ("make", step)
            print(f"$ {' '.join(command)}", flush=True)
            ran = run(command, clone, home)
            spent[step] = ran.spent_s
            if ran.code != 0:
                raise Failed(f"{' '.join(command)} ended with {ran.code} after {ran.spent_s:.0f} s")
            if step == "demo":
                measured.append(Measured("demo, its first chapter", ran.first_chapter_s, 1 * MINUTE_S))
                measured.append(Measured("demo, all chapters", ran.spent_s, 2.5 * MINUTE_S))
            if step == "test":
                measured.append(Measured("make test", ran.spent_s, 12 * MINUTE_S))
            if step == "verify" and "test" in spent:
                measured.append(Measured("make test and make verify", spent["test"] + ran.spent_s, 45 * MINUTE_S))
    return measured


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fresh", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=STEPS, default=STEPS, help="these steps, for example: --only demo")
    try:
        measured = measure(parser.parse_args(arguments).only)
    except Failed as failed:
        print(f"error: {failed}", file=sys.stderr)
        return 1
    print(f"\non {os.cpu_count()} processors, from an empty home:")
    print(*measured, sep="\n")
    return 0 if all(each.spent_s <= each.limit_s for each in measured) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
