"""`situate` as processes of its own, as a person starts it: a call to its end, or one that stays."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.controlplane.process import Process

T = TypeVar("T")

KUBECTL = Path(sys.executable).with_name("kubectl")
WITHIN_S = 30.0


def environment(folder: Path) -> dict[str, str]:
    """Nothing of whoever runs the tests gets in."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "SITUATE"))}
    return kept | {"HOME": str(folder)}


def situate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One call, whatever comes of it."""
    return call(folder, sys.executable, "-m", "situate", *arguments)


def call(folder: Path, *command: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment(folder), cwd=folder, input=given, text=True, capture_output=True, timeout=60
    )


def process(folder: Path, name: str, *arguments: str) -> Process:
    """`situate ARGUMENTS`, to be started; its output is in NAME.log."""
    command = (sys.executable, "-m", "situate", *arguments)
    return Process(name, command, folder / f"{name}.log", environment=environment(folder))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(what: str, ask: Callable[[], T], holds: Callable[[T], Any] = bool) -> T:
    """The first answer for which `holds`; fails with the last one when the time is over."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        answer = ask()
        if holds(answer):
            return answer
        assert time.monotonic() < deadline, f"after {WITHIN_S:g} s it is still not so that {what}: {answer}"
        time.sleep(0.05)
