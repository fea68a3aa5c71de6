"""A server of MongoDB's protocol, SecantusDB over WiredTiger, while a test needs it; it can be killed and come back.

No MongoDB: what it shows holds for MongoDB as far as the two agree. It says that it is a replica set of one, so that
majorities and retries are asked for as of a real one.
"""

from __future__ import annotations

import importlib.util
import socket
import sys
from pathlib import Path

from tests.controlplane.ports import ReservedPort
from tests.controlplane.process import Process

READY_S = 60.0
PROGRAM = Path(sys.executable).with_name("secantusd-py")


def why_not() -> str:
    """Why there is no such server here; empty if there is one."""
    return "" if importlib.util.find_spec("secantus") else "SecantusDB has no wheel for this version of Python"


class MongoServer:
    """Keeps its port while it is down, and what was stored if it is `durable`: it syncs each write then."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self._port = ReservedPort()
        self.url = f"mongodb://127.0.0.1:{self._port.number}/?replicaSet=secantus"
        self.process = Process(
            "secantusd-py",
            (
                *(str(PROGRAM), "--host", "127.0.0.1", "--port", str(self._port.number), "--cache-size", "64M"),
                *("--storage-path", str(folder / "data"), "--log-level", "WARNING"),
                *(("--sync-on-commit",) if durable else ()),
            ),
            folder / "secantusd.log",
        )

    @property
    def port(self) -> int:
        return self._port.number

    def start(self) -> None:
        """Returns when it takes connections."""
        self.process.start()
        self.process.wait_ready(self._answers, timeout_s=READY_S)

    def __enter__(self) -> MongoServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()  # nobody reads again what it held, and its own way out takes two seconds
        self._port.release()

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port.number), timeout=5).close()
        except OSError:
            return False
        return True
