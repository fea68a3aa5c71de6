"""Runs pods as processes of this machine: a kubelet's part for trying an operator where there are no containers.

Of a pod's first container the command, the arguments and the environment count, with values and fields of the pod;
`python` is the interpreter that runs this. There are no images, volumes or probes: somebody else reports that the pods
run, such as the embedded server's kubelets or kwok. A process that ends by itself is begun anew if it says so
(`os.EX_SOFTWARE`, as executors do that could not stop in time); any other end is taken for a mistake.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from situate.kube.client import Client
from situate.kube.errors import KubeError
from situate.objects.resources import unstructured

_RAW_PODS: Final = unstructured("", "v1", "Pod", "pods")
_LOOK_S: Final = 0.2
_VARIABLE: Final = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_GRACE_S: Final = 30.0
_LAST_LINES: Final = 15


class PodEnded(Exception):
    """A process has ended by itself; the text ends with what it last said."""


@dataclass(slots=True)
class _Running:
    pod: str
    process: asyncio.subprocess.Process
    log: Path
    grace_s: float
    told_to_end: bool = False
    ending: asyncio.Task[None] | None = None


class PodProcesses:
    """A service: `run` until cancelled. Each pod of the selector that runs has one process."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        selector: str,
        folder: Path,
        environment: Mapping[str, str],
        arguments: Sequence[str] = (),
    ) -> None:
        """`environment` and `arguments` are added to every pod's own; logs are written to `folder`/POD.log."""
        self.name = f"processes of {selector}"
        self._client = client
        self._namespace = namespace
        self._selector = selector
        self._folder = folder
        self._environment = dict(environment)
        self._arguments = tuple(arguments)
        self._by_uid: dict[str, _Running] = {}
        self._failed: PodEnded | None = None

    def running(self) -> list[str]:
        """Names of the pods whose process runs and has not been told to end."""
        return sorted(
            each.pod for each in self._by_uid.values() if each.process.returncode is None and not each.told_to_end
        )

    def ended(self) -> bool:
        """Whether no process is left of a pod that is gone."""
        return not any(each.told_to_end and each.process.returncode is None for each in self._by_uid.values())

    async def kill(self, pod: str) -> None:
        """SIGKILL: no good-bye. The pod stays as it is, and has no process from then on. Raises `KeyError`."""
        found = next((each for each in self._by_uid.values() if each.pod == pod and not each.told_to_end), None)
        if found is None:
            raise KeyError(f"no process of pod {pod!r} runs, but of: {', '.join(self.running()) or 'none'}")
        found.told_to_end = True
        with suppress(ProcessLookupError):
            found.process.kill()
        await found.process.wait()

    def check(self) -> None:
        """Raises `PodEnded` if one could not be begun, or has ended although nobody has told it to."""
        if self._failed is not None:
            raise self._failed
        for each in self._by_uid.values():
            if each.process.returncode not in (None, os.EX_SOFTWARE) and not each.told_to_end:
                raise PodEnded(f"{each.pod} ended with code {each.process.returncode}: {last_lines(each.log)}")

    async def run(self) -> None:
        """Begins a process for each pod that comes, and ends that of each pod that goes. Raises `PodEnded`."""
        try:
            while True:
                with suppress(KubeError):  # the next look comes soon
                    await self.look()
                await asyncio.sleep(_LOOK_S)
        except PodEnded as problem:
            self._failed = problem
            raise
        finally:
            await self.stop()

    async def look(self) -> None:
        listed = await self._client.list_all(_RAW_PODS, self._namespace, label_selector=self._selector)
        pods = {each.content["metadata"]["uid"]: each.content for each in listed.items}
        wanted = {uid for uid, pod in pods.items() if "deletionTimestamp" not in pod["metadata"]}
        for uid, running in [*self._by_uid.items()]:
            if uid not in wanted:
                self._end(running)
            elif running.process.returncode == os.EX_SOFTWARE and not running.told_to_end:
                del self._by_uid[uid]
        for uid in sorted(wanted - self._by_uid.keys(), key=lambda uid: str(pods[uid]["metadata"]["name"])):
            if (pods[uid].get("status") or {}).get("phase") == "Running":
                self._by_uid[uid] = await self._start(pods[uid])

    async def stop(self) -> None:
        """SIGTERM to all, and waits for their end."""
        for each in self._by_uid.values():
            self._end(each)
        if tasks := [each.ending for each in self._by_uid.values() if each.ending is not None]:
            await asyncio.wait(tasks)

    async def _start(self, pod: Mapping[str, Any]) -> _Running:
        container = pod["spec"]["containers"][0]
        name = str(pod["metadata"]["name"])
        environment = dict(_environment(container, pod))
        written = [*container.get("command", ()), *container.get("args", ())]
        command = [_VARIABLE.sub(lambda found: environment.get(found[1], found[0]), each) for each in written]
        if command and command[0] in ("python", "python3"):
            command[0] = sys.executable
        log = self._folder / f"{name}.log"
        if not command:
            raise PodEnded(f"{name}: its first container has no command, and there are no images to have one")
        try:
            with log.open("ab") as output:
                process = await asyncio.create_subprocess_exec(
                    *(*command, *self._arguments),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, **environment, **self._environment},
                )
        except OSError as problem:
            raise PodEnded(f"{name} cannot run {command[0]}: {problem.strerror}") from None
        return _Running(name, process, log, float(pod["spec"].get("terminationGracePeriodSeconds", _GRACE_S)))

    def _end(self, running: _Running) -> None:
        if running.process.returncode is None and running.ending is None:
            running.told_to_end = True
            running.ending = asyncio.create_task(_ended(running), name=f"end of {running.pod}")


@asynccontextmanager
async def pod_processes(processes: PodProcesses) -> AsyncIterator[PodProcesses]:
    """Runs them meanwhile; afterwards all have ended."""
    running = asyncio.create_task(processes.run(), name=processes.name)
    try:
        yield processes
    finally:
        running.cancel()
        await asyncio.wait([running])
    if not running.cancelled():
        running.result()


def last_lines(log: Path) -> str:
    """The end of it."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:]) or "it said nothing"


async def _ended(running: _Running) -> None:
    with suppress(ProcessLookupError):
        running.process.terminate()
    try:
        await asyncio.wait_for(running.process.wait(), running.grace_s)
    except TimeoutError:
        running.process.kill()
        await running.process.wait()


def _environment(container: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for variable in container.get("env", ()):
        field = ((variable.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "")
        found: Any = pod
        for step in field.split(".") if field else ():
            found = found.get(step) if isinstance(found, Mapping) else None
        yield variable["name"], str(found or "") if field else str(variable.get("value", ""))
