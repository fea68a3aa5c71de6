"""Servers and load as processes of their own: nobody measures a server from inside of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import pin

ROOT = Path(__file__).parent.parent
_END_S = 20.0


@dataclass(frozen=True)
class Server:
    """A server that answers."""

    url: str
    pid: int
    ready_s: float
    """From the start of its process to its first line, which it prints once it listens."""


@contextmanager
def server(module: str, *arguments: str, core: int | None = None) -> Iterator[Server]:
    """`python -m module`, whose first line ends with its URL; ended with the block."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        if core is not None:
            pin(process.pid, core)
        assert process.stdout is not None
        line = process.stdout.readline()
        if "http" not in line:
            raise SystemExit(f"{module} did not start; it said {line!r} and ended with {process.wait(_END_S)}")
        yield Server(line.split()[-1], process.pid, time.perf_counter() - start)
    finally:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def measured(command: Sequence[str]) -> dict[str, Any]:
    """Runs a measurement; its last line is a JSON object."""
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
