"""Processes of the demo: an API server, and schedulers.

Each process is a `situate` command, started as a user would start it. The story can kill them. All of them are stopped
and awaited at the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from situate.cli.demo.vpod.objects import SYSTEM
from situate.cli.demo.wait import holds_in_time
from situate.cli.terminal.failures import ExitCode

_READY_S: Final = 120.0
_STOP_S: Final = 20.0
_FORBIDDEN_PATTERN: Final = re.compile(r'forbidden: User \\?"system:serviceaccount:[^;\n]*')
"""Error message of API servers for an account that lacks a permission, also in JSON logs."""


class ProcessNotRunning(Exception):
    """Process of the demo that ended or did not answer. The text ends with the last line of its log."""


@dataclass(slots=True)
class DemoProcesses:
    """Running processes, and the folder of their logs."""

    folder: Path
    kubeconfig: Path
    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)

    async def start(self, name: str, *arguments: str, namespace: str = SYSTEM) -> None:
        """Start `situate ARGUMENTS` as in a Pod of that namespace, with its output in its own log file."""
        with self.log_of(name).open("ab") as log:
            environment = {**os.environ, "SITUATE_NAMESPACE": namespace}
            self.processes[name] = await _start_process(arguments, stdout=log, stderr=log, env=environment)

    async def kill(self, name: str) -> None:
        """Kill a process with SIGKILL: it cleans up nothing, and its Lease remains unchanged."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        await process.wait()

    async def explain(self, namespace: str, pod: str) -> dict[str, Any]:
        """Return the JSON output of `situate scheduler explain` for a Pod."""
        asked = ("scheduler", "explain", pod, "-n", namespace, "-o", "json", "--kubeconfig", str(self.kubeconfig))
        answer: dict[str, Any] = json.loads(await self.call("explain", *asked))
        return answer

    async def call(self, name: str, *arguments: str) -> str:
        """Return the output of `situate ARGUMENTS`. Its standard error is in the log of that name."""
        with self.log_of(name).open("ab") as log:
            process = await _start_process(arguments, stdout=asyncio.subprocess.PIPE, stderr=log)
            told, _ = await process.communicate()
        if process.returncode not in (ExitCode.DONE, ExitCode.NO):
            raise self._has_ended(name, process)
        return told.decode()

    def check(self) -> None:
        """Raise `ProcessNotRunning` if a process has ended by itself."""
        for name, process in self.processes.items():
            if process.returncode is not None:
                raise self._has_ended(name, process)

    def _has_ended(self, name: str, process: asyncio.subprocess.Process) -> ProcessNotRunning:
        return ProcessNotRunning(
            f"process {name} ended with exit code {process.returncode}: {self.last_log_line(name)}"
        )

    def permission_errors(self) -> list[str]:
        """Return the refusals for a missing permission, from the logs of processes and Pods."""
        return [
            f"the API server refused a call of {log.stem}: {found[0]}"
            for log in sorted(self.folder.glob("*.log"))
            if (found := _FORBIDDEN_PATTERN.search(log.read_text(errors="replace"))) is not None
        ]

    def log_of(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def last_log_line(self, name: str) -> str:
        lines = self.log_of(name).read_text(errors="replace").splitlines()
        return lines[-1] if lines else "its log is empty"

    async def stop(self) -> None:
        """Stop schedulers first, so that they can release their Lease; then the server."""
        for name in reversed(list(self.processes)):
            process = self.processes.pop(name)
            if process.returncode is None:
                process.terminate()
                try:
                    await asyncio.wait_for(process.wait(), _STOP_S)
                except TimeoutError:
                    process.kill()
                    await process.wait()


async def _start_process(arguments: Sequence[str], **streams: Any) -> asyncio.subprocess.Process:
    command = (sys.executable, "-m", "situate", *arguments)
    return await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL, **streams)


@asynccontextmanager
async def start_demo_processes(folder: Path, kubeconfig: Path | None) -> AsyncIterator[DemoProcesses]:
    """Start the embedded server, unless a kubeconfig names a cluster. Schedulers are started later."""
    built = DemoProcesses(folder, kubeconfig or folder / "kubeconfig")
    try:
        if kubeconfig is None:
            await built.start("embedded", "embedded", "--port", "0", "--write-kubeconfig", str(built.kubeconfig))
            await _wait_for_kubeconfig(built)
        yield built
    finally:
        await built.stop()


async def _wait_for_kubeconfig(built: DemoProcesses) -> None:
    """Wait for the kubeconfig, which the server writes when it answers."""

    async def is_written() -> bool:
        if built.kubeconfig.exists():
            return True
        built.check()
        return False

    if not await holds_in_time(is_written, _READY_S, 0.05):
        raise ProcessNotRunning(f"the API server was not ready after {_READY_S:g} s: {built.last_log_line('embedded')}")


def hints(kubeconfig: Path) -> tuple[str, ...]:
    """Return how to access the same cluster from another terminal, and how to end the demo."""
    relative = os.path.relpath(kubeconfig)
    shown = kubeconfig if relative.startswith("..") else relative
    return (
        f"in another terminal: export KUBECONFIG={shown}",
        "kubectl get pods -A -w    Ctrl-C here ends the demo",
    )
