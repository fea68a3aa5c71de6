"""Programs as processes of their own, as a person starts them: a call to its end, or `situate` as one that stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.controlplane.process import Process

KUBECTL = Path(sys.executable).with_name("kubectl")


def environment(folder: Path) -> dict[str, str]:
    """Nothing of whoever runs the tests gets in."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "SITUATE"))}
    return kept | {"HOME": str(folder)}


def call(folder: Path, *command: str, given: str = "", path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`path`: a folder to put first in PATH."""
    env = environment(folder)
    if path is not None:
        env["PATH"] = f"{path}{os.pathsep}{env['PATH']}"
    return subprocess.run(command, env=env, cwd=folder, input=given, text=True, capture_output=True, timeout=120)


def process(folder: Path, name: str, *arguments: str) -> Process:
    """`situate ARGUMENTS`, to be started; its output is in NAME.log."""
    command = (sys.executable, "-m", "situate", *arguments)
    return Process(name, command, folder / f"{name}.log", environment=environment(folder))
