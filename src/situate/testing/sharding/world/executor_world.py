"""Executors as processes on virtual time, with an in-memory API server. The log is checked at the end.

There is no supervisor: the tests assign, drain and revoke in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec

from situate.cluster.apiserver.api import ApiServer
from situate.cluster.storage.effects import ADMIN, Identity
from situate.cluster.storage.names import NameGenerator
from situate.cluster.storage.watch import Watch
from situate.kube.client import Client
from situate.objects.messages import Request, Response
from situate.sharding.executor.config import ExecutorConfig, ExecutorIdentity
from situate.sharding.executor.controller.environment import RuntimeEnvironment
from situate.sharding.executor.controller.executor import Executor
from situate.sharding.executor.controller.work import Work
from situate.sharding.executor.next_step import Outcome
from situate.sharding.model.field_paths import Content
from situate.sharding.model.names import EPOCH
from situate.sharding.model.object_view import Holder, view_of
from situate.testing.sharding import events
from situate.testing.sharding.invariants import breaches
from situate.testing.sharding.world.reports import (
    CRDS,
    PATHS,
    REPORTS,
    assignment_patch,
    definition,
    drain_patch,
    report,
    revocation_patch,
)
from situate.testing.virtual_time.network import Network, Wire
from situate.testing.virtual_time.processes import Process, ProcessState, World

START_SECONDS = 1_800_000_000.0
_START_TIME = datetime.fromtimestamp(START_SECONDS, UTC)
NAMESPACE = "shop"
TABLE = f"reports.{REPORTS.group}"
"""Name of the objects' table in the server's store."""
_JSON = {"accept": "application/json", "content-type": "application/json"}
_PATCH = {"accept": "application/json", "content-type": "application/json-patch+json"}

Script = Callable[["ExecutorProcess", Content, Work], Awaitable[Outcome | None]]


async def run_forever(_: ExecutorProcess, __: Content, ___: Work) -> None:
    await asyncio.sleep(1e9)


class ExecutorProcess:
    """One executor process and its handlers."""

    def __init__(
        self, place: ExecutorWorld, pod: str, uid: str, script: Script, config: ExecutorConfig, speed: float = 1.0
    ) -> None:
        """`speed` is the speed of its clock relative to the place."""
        self.executor_world = place
        self.speed = speed
        self.pod = pod
        self.uid = uid
        self.script = script
        self.running_names: list[str] = []
        """Names of the objects being worked on now."""
        self.latest_work: dict[str, Work] = {}
        """By object name: the `Work` of the last handler call."""
        self.handled_names: list[str] = []
        """Names of the objects, in the order of the handler calls."""
        self.exit_status: int | None = None
        self.wires: list[Wire] = []
        identity = ExecutorIdentity(pod, NAMESPACE, uid)
        around = RuntimeEnvironment(
            rng=Random(f"{pod} {uid}"),
            now=lambda: place.world.now * speed,
            wall=place.wall,
            end_process=self.end,
            own_thread=False,
        )
        self.executor = Executor(identity, self._handle, config, self._connect, around)
        self.process: Process = place.world.start(f"{pod} {uid}", self._main, speed)

    def end(self, status: int) -> None:
        """End the process as `os._exit` does."""
        self.exit_status = status
        self.executor_world.network.happened["process ended itself"] += 1
        self.crash()

    def crash(self) -> None:
        for name in tuple(self.running_names):
            self.running_names.remove(name)
        self.executor_world.log_event(events.Crash(self.executor_world.world.now, self.pod, self.uid))
        self.process.kill()
        for wire in self.wires:
            wire.disconnect()

    def pause(self) -> None:
        """Pause the process (SIGSTOP). Its work counts as stopped once its right to work has ended."""
        self.process.pause()
        self._log_stop_when_expired()

    def _log_stop_when_expired(self) -> None:
        if self.process.state is not ProcessState.PAUSED:
            return
        place, tenure = self.executor_world, self.executor.tenure
        left_s = 0.0 if tenure.over else tenure.deadline / self.speed - place.world.now
        if left_s > 0.0:
            place.world.timeline.call_after(left_s, self._log_stop_when_expired)
            return
        for name in self.running_names:
            place.log_event(events.Stop(place.world.now, self.pod, self.uid, name))
        self.running_names.clear()

    def stop(self) -> None:
        """End the process in order (SIGTERM)."""
        self.process.loop.call_soon_threadsafe(self.executor.stop)

    @property
    def has_ended(self) -> bool:
        return self.process.state is ProcessState.ENDED

    async def _main(self) -> None:
        await self.executor.run()

    def _connect(self) -> Client:
        wire = self.executor_world.network.connect(
            Identity(f"executor {self.pod}", ("system:authenticated",), self.uid)
        )
        self.wires.append(wire)
        return Client(wire)

    async def _handle(self, obj: Content, work: Work) -> Outcome | None:
        place, name = self.executor_world, str(obj["metadata"]["name"])
        place.log_start(self, name, work.epoch)
        self.latest_work[name] = work
        self.handled_names.append(name)
        self.running_names.append(name)
        try:
            return await self.script(self, obj, work)
        finally:
            if name in self.running_names:
                self.running_names.remove(name)
                place.log_event(events.Stop(place.world.now, self.pod, self.uid, name))


class ExecutorWorld:
    """A server, a network, executors, and the log of events. Close it at the end."""

    def __init__(self, *, status_subresource: bool = True, selectable: bool = False, seed: int = 1) -> None:
        self.world = World()
        self.api = ApiServer(NameGenerator(Random(seed)), now=START_SECONDS, tracks_managers=False)
        self.network = Network(self, self.world.timeline, Random(seed + 1), epoch=START_SECONDS)
        self.ordered_events: list[tuple[int, events.Event]] = []
        self._confirmed_reads: dict[tuple[str, str], tuple[float, int]] = {}
        self.members: list[ExecutorProcess] = []
        self.deaf = False
        """Whether reads of the objects are never answered, so that executors learn nothing about them."""
        self.tolerated_invariants: set[str] = set()
        """Invariants that the test itself breaks."""
        self.call("POST", CRDS, definition(status_subresource=status_subresource, selectable=selectable))
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})

    @property
    def log(self) -> list[events.Event]:
        """Return the events in order. Work begins at the server's confirmation."""
        return [event for _, event in sorted(self.ordered_events, key=lambda noted: noted[0])]

    def log_event(self, event: events.Event) -> None:
        self.ordered_events.append((2 * len(self.ordered_events), event))

    def log_start(self, member: ExecutorProcess, name: str, epoch: int) -> None:
        """Log the begin of work at the time of the server's answer.

        Events until its arrival are unknown to the executor.
        """
        t, order = self._confirmed_reads.get((member.uid, name), (self.world.now, 2 * len(self.ordered_events) - 1))
        self.ordered_events.append((order, events.Start(t, member.pod, member.uid, name, epoch)))

    def wall(self) -> datetime:
        return _START_TIME + timedelta(seconds=self.world.now)

    def start_executor(
        self,
        pod: str = "a",
        uid: str = "",
        script: Script = run_forever,
        *,
        announce: bool = True,
        speed: float = 1.0,
        **config: Any,
    ) -> ExecutorProcess:
        """Start an executor process. `announce` logs it as eligible from now on."""
        uid = uid or f"uid-{pod}"
        member = ExecutorProcess(
            self, pod, uid, script, ExecutorConfig(REPORTS, **{"namespace": NAMESPACE, **config}), speed
        )
        self.members.append(member)
        if announce:
            self.log_event(events.Eligible(self.world.now, pod, uid))
        return member

    def create(self, name: str, **spec: Any) -> Content:
        made = self.call("POST", REPORTS.path(NAMESPACE), report(name, **spec))
        self.log_event(events.ObjectCreated(self.world.now, name, made["metadata"]["uid"]))
        return made

    def get(self, name: str) -> dict[str, Any]:
        return self.call("GET", REPORTS.path(NAMESPACE, name))

    def assign(self, name: str, member: ExecutorProcess) -> None:
        """Assign an object as a supervisor does. Create it if it does not exist."""
        found = self.api.store.get(TABLE, NAMESPACE, name)
        content = self.create(name) if found is None else self.get(name)
        stored = self._patch(name, assignment_patch(content, Holder(member.pod, member.uid), self.wall()))
        epoch = view_of(stored, PATHS).epoch
        self.log_event(events.Assign(self.world.now, name, member.pod, member.uid, epoch))

    def drain(self, name: str) -> None:
        self._patch(name, drain_patch(self.get(name), self.wall() + timedelta(seconds=30)))

    def revoke(self, name: str) -> None:
        stored = self._patch(name, revocation_patch(self.get(name)))
        self.log_event(events.Revoke(self.world.now, name, view_of(stored, PATHS).epoch))

    def lease(self, member: ExecutorProcess) -> dict[str, Any]:
        name = member.executor.config.lease_name(member.executor.identity)
        return self.call("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{name}")

    def log_lease_loss(self, member: ExecutorProcess) -> None:
        """Log the loss of the executor's Lease."""
        self.log_event(events.LeaseLost(self.world.now, member.pod, member.uid))

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        return self.world.run_until(self.world.now + seconds, stop=until)

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch | None:
        """Answer a request of the network, and log the writes of executors."""
        if self.deaf and request.method == "GET" and "/reports" in request.path:
            return None
        answer = self.execute(request, now, identity)
        if request.method == "GET" and "/reports/" in request.path:
            self._confirmed_reads[identity.uid, name_in(request.path)] = (
                self.world.now,
                2 * len(self.ordered_events) - 1,
            )
        if request.method == "PATCH" and "/reports/" in request.path:
            assert isinstance(answer, Response)
            self._log_write(request, answer, identity.uid)
        return answer

    def execute(self, request: Request, now: float, identity: Identity) -> Response | Watch:
        """Carry out a request that has arrived."""
        return self.api.answer(request, now, identity)

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Send a request of the test itself, carried out at once."""
        headers = _PATCH if method == "PATCH" else _JSON
        data = b"" if body is None else msgspec.json.encode(body)
        answer = self.api.answer(Request(method, path, (), headers, data), START_SECONDS + self.world.now, ADMIN)
        assert isinstance(answer, Response)
        assert answer.status < 300, (method, path, answer)
        return dict(msgspec.json.decode(answer.body))

    def close(self) -> None:
        """Close the place. Raises if an invariant was broken or a process failed."""
        failed = self.close_processes()
        assert not failed, failed
        found = [str(each) for each in breaches(self.log) if each.invariant not in self.tolerated_invariants]
        assert found == [], found

    def close_processes(self) -> list[object]:
        """Unwind every process. Return the failures and unawaited exceptions."""
        for member in self.members:
            for wire in member.wires:
                wire.disconnect()
        failures = [
            failure for member in self.members if member.has_ended and (failure := member.process.failure()) is not None
        ]
        complaints = [each for process in self.world.processes for each in process.complaints]
        self.world.close()
        return [*failures, *complaints]

    def epoch_of(self, request: Request) -> int:
        """Return the epoch of an executor's write that was just carried out or refused. 0: the write has none."""
        tests = {each["path"]: each["value"] for each in msgspec.json.decode(request.body) if each["op"] == "test"}
        return int(tests.get(annotation_path(EPOCH), 0))

    def _patch(self, name: str, operations: Sequence[Any]) -> dict[str, Any]:
        return self.call("PATCH", REPORTS.path(NAMESPACE, name), [*operations])

    def _log_write(self, request: Request, answer: Response, uid: str) -> None:
        epoch = self.epoch_of(request)
        member = next(each for each in self.members if each.uid == uid)
        name = name_in(request.path)
        accepted = answer.status < 300
        now = self.world.now
        self.log_event(events.Write(now, member.pod, uid, name, epoch, accepted))
        if not accepted:
            return
        view = view_of(msgspec.json.decode(answer.body), PATHS)
        if view.holder is None:
            self.log_event(events.Ack(now, member.pod, uid, name))
        if view.completed:
            self.log_event(events.ObjectCompleted(now, name))


def namespace_in(path: str) -> str:
    return path.split("/namespaces/")[1].split("/")[0]


def name_in(path: str) -> str:
    return path.split("/reports/")[1].split("/")[0]


def annotation_path(annotation: str) -> str:
    return f"/metadata/annotations/{annotation.replace('/', '~1')}"
