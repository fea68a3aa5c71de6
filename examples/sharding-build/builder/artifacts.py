"""Where applications go, and the log of all runs: a folder that every executor shares.

It is what situate calls an outside system: it refuses a token that is older than one it has seen for the same Build, so
that an executor that has slept, and wakes up when another one builds already, changes nothing here either.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Outdated(Exception):
    """Somebody has begun this Build under a later epoch."""


class Artifacts:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._log = root / "runs.log"
        root.mkdir(parents=True, exist_ok=True)

    def begin(self, token: str, name: str, executor: str) -> None:
        """Raises `Outdated`."""
        with self._claimed(token):
            self._say(token, "begun", name, executor)

    def keep(self, token: str, name: str, executor: str, application: Path) -> Path:
        """Moves it in, in one step. Raises `Outdated`."""
        with self._claimed(token) as folder:
            kept = folder / application.name
            application.replace(kept)
            self._say(token, "kept", name, executor)
            return kept

    @contextmanager
    def _claimed(self, token: str) -> Iterator[Path]:
        """The Build's folder, alone, unless a later epoch was here."""
        uid, _, epoch = token.partition(":")
        folder = self._root / uid
        folder.mkdir(exist_ok=True)
        with (folder / "epoch").open("a+") as claim:
            fcntl.flock(claim, fcntl.LOCK_EX)
            claim.seek(0)
            seen = int(claim.read() or 0)
            if int(epoch) < seen:
                raise Outdated(f"{token}: epoch {seen} has begun")
            claim.truncate(0)
            claim.write(epoch)
            claim.flush()
            yield folder

    def _say(self, token: str, what: str, name: str, executor: str) -> None:
        """One write a line: lines of several processes do not mix."""
        line = json.dumps({"token": token, "what": what, "name": name, "executor": executor, "at": time.time()})
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(log, line.encode() + b"\n")
        finally:
            os.close(log)
