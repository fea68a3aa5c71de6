"""The processes of the demo: an API server, and two schedulers of which one stands by. Each is one of ours, started
as a user would start it; the story can kill the leader, and everything is stopped and waited for at the end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from situate.cli.demo.objects import CONFIGURATION, SYSTEM
from situate.cli.failures import ExitCode

SCHEDULERS = ("scheduler-1", "scheduler-2")
_READY_S = 120.0
_STOP_S = 20.0


class DidNotStart(Exception):
    """A process of the demo ended or did not answer; the text ends with what it last said."""


@dataclass(slots=True)
class Stage:
    """What runs, and where its logs are."""

    folder: Path
    kubeconfig: Path
    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)

    async def start(self, name: str, *arguments: str) -> None:
        """Starts `situate ARGUMENTS` as in the demo's namespace, its output in a log file of its own."""
        with self.log_of(name).open("ab") as log:
            self.processes[name] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "situate", *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "SITUATE_NAMESPACE": SYSTEM},
            )

    async def start_schedulers(self) -> None:
        """Two of them; their identities are their names here."""
        configuration = self.folder / "situate.yaml"
        configuration.write_text(json.dumps(CONFIGURATION))  # JSON is YAML
        for name in SCHEDULERS:
            await self.start(
                name,
                *("run", "-f", str(configuration), "--kubeconfig", str(self.kubeconfig)),
                *("--set", f"leaderElection.identity={name}", "--set", "health.address=127.0.0.1:0"),
            )

    async def start_product(self, name: str, content: Mapping[str, Any]) -> None:
        """Another process, which looks after what this configuration names, and nothing else."""
        configuration = self.folder / f"{name}.yaml"
        configuration.write_text(json.dumps(content))
        await self.start(
            name,
            *("run", "-f", str(configuration), "--kubeconfig", str(self.kubeconfig)),
            *("--set", f"leaderElection.identity={name}", "--set", "health.address=127.0.0.1:0"),
        )

    async def kill(self, name: str) -> None:
        """SIGKILL: no good-bye, the Lease stays as it is."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        await process.wait()

    async def explain(self, namespace: str, pod: str) -> dict[str, Any]:
        """What `situate scheduler explain` prints about a pod, as a program reads it."""
        asked = ("scheduler", "explain", pod, "-n", namespace, "-o", "json", "--kubeconfig", str(self.kubeconfig))
        answer: dict[str, Any] = json.loads(await self.call("explain", *asked))
        return answer

    async def call(self, name: str, *arguments: str) -> str:
        """What `situate ARGUMENTS` prints. Its complaints are in the log of that name."""
        with self.log_of(name).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "situate", *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
            told, _ = await process.communicate()
        if process.returncode not in (ExitCode.DONE, ExitCode.NO):
            raise DidNotStart(f"{name} ended with code {process.returncode}: {self.last_words(name)}")
        return told.decode()

    def check(self) -> None:
        """Raises `DidNotStart` if a process has ended by itself."""
        for name, process in self.processes.items():
            if process.returncode is not None:
                raise DidNotStart(f"{name} ended with code {process.returncode}: {self.last_words(name)}")

    def log_of(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def last_words(self, name: str) -> str:
        lines = self.log_of(name).read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    async def stop(self) -> None:
        """Schedulers first, so that they can hand in their Lease; then the server."""
        for name in reversed(list(self.processes)):
            process = self.processes.pop(name)
            if process.returncode is None:
                process.terminate()
                try:
                    await asyncio.wait_for(process.wait(), _STOP_S)
                except TimeoutError:
                    process.kill()
                    await process.wait()


@asynccontextmanager
async def stage(folder: Path, kubeconfig: Path | None) -> AsyncIterator[Stage]:
    """Everything but the schedulers runs: the embedded server, unless a kubeconfig names a cluster."""
    built = Stage(folder, kubeconfig or folder / "kubeconfig")
    try:
        if kubeconfig is None:
            await built.start("embedded", "embedded", "--port", "0", "--write-kubeconfig", str(built.kubeconfig))
            await _until_written(built)
        yield built
    finally:
        await built.stop()


async def _until_written(built: Stage) -> None:
    """The server writes the kubeconfig when it answers."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + _READY_S
    while not built.kubeconfig.exists():
        built.check()
        if clock() > deadline:
            raise DidNotStart(f"the API server is not ready after {_READY_S:g} s: {built.last_words('embedded')}")
        await asyncio.sleep(0.05)


def hint(kubeconfig: Path) -> str:
    """How to look at the same cluster from another terminal."""
    relative = os.path.relpath(kubeconfig)
    shown = kubeconfig if relative.startswith("..") else relative
    return f"in another terminal: export KUBECONFIG={shown}; kubectl get pods -A -w"
