"""Runs the command where it believes that a person looks on."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

SITUATE = Path(sys.executable).with_name("situate")


def run_in_terminal(*command: str | Path, answer_to: str = "") -> str:
    """All that appears on the terminal. Once `answer_to` has appeared, Enter is pressed."""
    controller, terminal = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "COLUMNS": "100"}
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    seen = ""
    for part in _parts(controller):
        seen += part.decode(errors="replace")
        if answer_to and answer_to in seen:
            os.write(controller, b"\n")
            answer_to = ""
    os.close(controller)
    assert process.wait(timeout=60) == 0, seen
    return seen


def _parts(controller: int) -> Iterator[bytes]:
    with suppress(OSError):  # how Linux says that nobody has the terminal open any more
        while part := os.read(controller, 65536):
            yield part
