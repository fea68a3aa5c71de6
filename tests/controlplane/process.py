"""One program of the control plane while it runs: its log, its end, and what to say if it ends too early."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.controlplane.errors import ControlPlaneError

POLL_S = 0.02


class Process:
    """Started by `start`, ended by `stop` or `kill` through its own process id; may be started again."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, *, environment: dict[str, str] | None = None
    ) -> None:
        self.name = name
        self.command = tuple(command)
        self.log = log
        self._environment = environment
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._popen is None:
            raise ControlPlaneError(f"{self.name} was never started")
        return self._popen.pid

    @property
    def running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    def start(self) -> None:
        if self.running:
            raise ControlPlaneError(f"{self.name} runs already as process {self.pid}")
        with self.log.open("ab") as output:
            self._popen = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                # Ctrl-C in a terminal goes to the whole group; the order of stopping is ours.
                start_new_session=True,
            )

    def wait_ready(self, ready: Callable[[], bool], *, timeout_s: float) -> None:
        """Returns when `ready` says so; raises with the log's end if the process ends or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.running:
                code = self._popen.returncode if self._popen else None
                raise ControlPlaneError(f"{self.name} ended with code {code} before it was ready; {self.tail()}")
            if time.monotonic() > deadline:
                raise ControlPlaneError(f"{self.name} was not ready after {timeout_s:g} s; {self.tail()}")
            time.sleep(POLL_S)

    def stop(self, *, timeout_s: float = 10.0) -> None:
        """SIGTERM, then SIGKILL after `timeout_s`; returns when the process is gone. Repeating it is harmless."""
        if self._popen is None or not self.running:
            return
        self.resume()
        self._popen.terminate()
        try:
            self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, as an outage would; returns when the process is gone."""
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def tail(self, lines: int = 15) -> str:
        with self.log.open(errors="replace") as text:
            end = "".join(deque(text, maxlen=lines)).strip()
        return f"the end of {self.log}:\n{end}"
