"""Run pods as processes on this machine, as a kubelet would, to try an operator without containers.

The command, the arguments and the environment of a pod's first container are used, with values and fields of the pod.
`python` is the current interpreter. There are no images, volumes or probes. Another component reports that the pods
run, such as the embedded server's kubelets or kwok.

A process that ends with `os.EX_SOFTWARE` is restarted; executors use this code if they could not stop in time. Any
other end is an error. With `report` it is reported instead, and the process is restarted after a pause, as a kubelet
does.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from situate.kube.client import Client
from situate.kube.errors import KubeError
from situate.kube.retry.backoff import Backoff
from situate.objects.resources import unstructured

_RAW_PODS: Final = unstructured("", "v1", "Pod", "pods")
_INTERVAL_S: Final = 0.2
_VARIABLE: Final = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_GRACE_S: Final = 30.0
_LAST_LINES: Final = 15


_RESTART_BACK_OFF: Final = Backoff(initial_s=1.0, cap_s=30.0, jitter=0.0)
_NO_CHANCE: Final = random.Random(0)
"""The back-off has no jitter, so it does not depend on this source."""


@dataclass(frozen=True, slots=True)
class Program:
    """The process of one pod."""

    command: Sequence[str]
    """Words such as `$(NAME)` are replaced by variables of the container."""
    environment: Mapping[str, str]
    """Variables in addition to the container's own."""


Programs: TypeAlias = Callable[[Mapping[str, Any]], Program | None]
"""Returns the program of a pod; None if the pod has no process here."""


class PodEnded(Exception):
    """A process ended by itself. The text ends with its last output."""


@dataclass(slots=True)
class _PodProcess:
    pod: str
    process: asyncio.subprocess.Process
    log: Path
    grace_s: float
    stop_requested: bool = False
    stop_task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class _Failures:
    """A pod with a process that ended by itself."""

    times: int
    retry_at: float


class PodProcesses:
    """Service that runs one process for each running pod of the selector. `run` it until cancelled."""

    def __init__(
        self,
        client: Client,
        namespace: str | None,
        selector: str,
        folder: Path,
        environment: Mapping[str, str],
        arguments: Sequence[str] = (),
        *,
        programs: Programs | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """Configure the processes.

        `environment` and `arguments` are added to those of every pod; logs are written to `folder`/POD.log. With
        `namespace` None pods of all namespaces run, and logs go to NAMESPACE.POD.log. With `programs` None each pod
        runs its own command. `report` receives a text for each process that ends by itself, and the process is
        restarted; None makes that an error.
        """
        self.name = f"processes of {selector}"
        self._client = client
        self._namespace = namespace
        self._selector = selector
        self._folder = folder
        self._environment = dict(environment)
        self._arguments = tuple(arguments)
        self._programs = programs or _program_of_pod
        self._report = report
        self._failing: dict[str, _Failures] = {}
        self._by_uid: dict[str, _PodProcess] = {}
        self._failed: PodEnded | None = None

    def running_pods(self) -> list[str]:
        """Return the names of the pods with a running process that is not being stopped."""
        return sorted(
            each.pod for each in self._by_uid.values() if each.process.returncode is None and not each.stop_requested
        )

    def all_stopped(self) -> bool:
        """Return whether all processes that are being stopped have ended."""
        return not any(each.stop_requested and each.process.returncode is None for each in self._by_uid.values())

    async def kill(self, pod: str) -> None:
        """Kill the process with SIGKILL. The pod stays unchanged and has no process from then on. Raises `KeyError`."""
        found = next((each for each in self._by_uid.values() if each.pod == pod and not each.stop_requested), None)
        if found is None:
            raise KeyError(f"pod {pod!r} has no running process, allowed: {', '.join(self.running_pods()) or 'none'}")
        found.stop_requested = True
        with suppress(ProcessLookupError):
            found.process.kill()
        await found.process.wait()

    def check(self) -> None:
        """Raise `PodEnded` if a process could not be started, or ended by itself."""
        if self._failed is not None:
            raise self._failed
        for each in self._by_uid.values():
            if each.process.returncode not in (None, os.EX_SOFTWARE) and not each.stop_requested:
                raise PodEnded(f"{each.pod} ended with code {each.process.returncode}: {last_lines(each.log)}")

    async def run(self) -> None:
        """Start a process for each new pod, and end that of each removed pod. Raises `PodEnded`."""
        try:
            while True:
                with suppress(KubeError):  # the next iteration comes soon
                    await self.synchronize()
                await asyncio.sleep(_INTERVAL_S)
        except PodEnded as problem:
            self._failed = problem
            raise
        finally:
            await self.stop()

    async def synchronize(self) -> None:
        listed = await self._client.list_all(_RAW_PODS, self._namespace, label_selector=self._selector)
        pods = {each.content["metadata"]["uid"]: each.content for each in listed.items}
        wanted = {uid for uid, pod in pods.items() if "deletionTimestamp" not in pod["metadata"]}
        for uid, running in [*self._by_uid.items()]:
            code = running.process.returncode
            if uid not in wanted:
                self._stop_process(running)
            elif code == os.EX_SOFTWARE and not running.stop_requested:
                del self._by_uid[uid]
            elif code is not None and not running.stop_requested and self._report is not None:
                del self._by_uid[uid]
                again_s = self._record_failure(uid)
                said = f"{running.pod} ended with code {code} and restarts in {again_s:g} s, log: {running.log}"
                self._report(said)
        now = asyncio.get_running_loop().time()
        for uid in sorted(wanted - self._by_uid.keys(), key=lambda uid: str(pods[uid]["metadata"]["name"])):
            waits = uid in self._failing and now < self._failing[uid].retry_at
            if (pods[uid].get("status") or {}).get("phase") == "Running" and not waits:
                try:
                    started = await self._start_process(pods[uid])
                except PodEnded as problem:
                    if self._report is None:
                        raise
                    self._report(f"{problem}; retrying in {self._record_failure(uid):g} s")
                    continue
                if started is not None:
                    self._by_uid[uid] = started

    def _record_failure(self, uid: str) -> float:
        """Record one more failure. Return how many seconds the pod now has no process."""
        times = self._failing[uid].times + 1 if uid in self._failing else 1
        again_s = _RESTART_BACK_OFF.delay_s(times, _NO_CHANCE)
        self._failing[uid] = _Failures(times, asyncio.get_running_loop().time() + again_s)
        return again_s

    async def stop(self) -> None:
        """Send SIGTERM to all processes, and wait until they end."""
        for each in self._by_uid.values():
            self._stop_process(each)
        if tasks := [each.stop_task for each in self._by_uid.values() if each.stop_task is not None]:
            await asyncio.wait(tasks)

    async def _start_process(self, pod: Mapping[str, Any]) -> _PodProcess | None:
        """Start the process of a pod; None if the pod has no process here."""
        program = self._programs(pod)
        if program is None:
            return None
        metadata = pod["metadata"]
        name = str(metadata["name"]) if self._namespace is not None else f"{metadata['namespace']}.{metadata['name']}"
        environment = dict(_environment(pod["spec"]["containers"][0], pod)) | dict(program.environment)
        command = [_VARIABLE.sub(lambda found: environment.get(found[1], found[0]), each) for each in program.command]
        if command and command[0] in ("python", "python3"):
            command[0] = sys.executable
        log = self._folder / f"{name}.log"
        if not command:
            raise PodEnded(f"{name}: the first container has no command; set its command, because no images run here")
        try:
            with log.open("ab") as output:
                process = await asyncio.create_subprocess_exec(
                    *(*command, *self._arguments),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, **environment, **self._environment},
                    start_new_session=True,  # the caller handles Ctrl-C and ends the processes in order
                )
        except OSError as problem:
            raise PodEnded(f"{name} cannot run {command[0]}: {problem.strerror}") from None
        return _PodProcess(name, process, log, float(pod["spec"].get("terminationGracePeriodSeconds", _GRACE_S)))

    def _stop_process(self, running: _PodProcess) -> None:
        if running.process.returncode is None and running.stop_task is None:
            running.stop_requested = True
            running.stop_task = asyncio.create_task(_terminate(running), name=f"end of {running.pod}")


@asynccontextmanager
async def pod_processes(processes: PodProcesses) -> AsyncIterator[PodProcesses]:
    """Run the processes within the context. All have ended after it."""
    running = asyncio.create_task(processes.run(), name=processes.name)
    try:
        yield processes
    finally:
        running.cancel()
        await asyncio.wait([running])
    if not running.cancelled():
        running.result()


def last_lines(log: Path) -> str:
    """Return the last lines of the log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:]) or "no output"


async def _terminate(running: _PodProcess) -> None:
    with suppress(ProcessLookupError):
        running.process.terminate()
    try:
        await asyncio.wait_for(running.process.wait(), running.grace_s)
    except TimeoutError:
        running.process.kill()
        await running.process.wait()


def _program_of_pod(pod: Mapping[str, Any]) -> Program:
    container = pod["spec"]["containers"][0]
    return Program([*container.get("command", ()), *container.get("args", ())], {})


def _environment(container: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for variable in container.get("env", ()):
        field = ((variable.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "")
        found: Any = pod
        for step in field.split(".") if field else ():
            found = found.get(step) if isinstance(found, Mapping) else None
        yield variable["name"], str(found or "") if field else str(variable.get("value", ""))
