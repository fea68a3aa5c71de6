"""Where `bench.shard` measures: a server, a namespace, supervisors and executors as processes, a watch of the objects.

The server is the embedded one or etcd and kube-apiserver, each as processes of their own. An executor may also be one
that only has a pod and a Lease that lasts: enough where the supervisor alone is measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import urllib.request
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol, TypeVar

import msgspec
from tests.controlplane.build import build
from tests.controlplane.plane import ControlPlane, Options
from tests.controlplane.process import Process

from bench.processes import ROOT, server
from bench.shard_member import LABELS, UNITS
from bench.shard_size import Size
from situate.embedded.kubeconfig import kubeconfig, write_kubeconfig
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.kube.errors import AlreadyExists, NotFound, TooManyRequests
from situate.kube.patches import MergePatch
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import LEASES, PODS, ResourceType, unstructured
from situate.sharding.leases.membership import LONGEST_LEASE_S
from situate.sharding.model.names import EPOCH, EXECUTOR, EXECUTOR_UID, POOL, STATUS

PATIENCE_S: Final = 300.0
IN_FLIGHT: Final = 32
_POLL_S: Final = 0.01
_CRDS: Final = unstructured("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
_NAMESPACES: Final = unstructured("", "v1", "Namespace", "namespaces")
_INPUT: Final = "what there is to be done, as long as such texts are in objects of operators; " * 8


@dataclass(frozen=True)
class Target:
    """A server, and how to reach it."""

    name: str
    url: str
    kubeconfig: Path
    pids: tuple[int, ...]
    plane: ControlPlane | None = None
    """None: the embedded server."""

    @contextmanager
    def answering_later(self, seconds: float) -> Iterator[None]:
        """Each answer but those of watches comes so much later; only the embedded server can be told."""
        rule = {"fault": "delay", "watches": False, "times": None, "delayS": seconds}
        self._order("POST", rule)
        try:
            yield
        finally:
            self._order("DELETE", None)

    def _order(self, method: str, body: object) -> None:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(
            urllib.request.Request(f"{self.url}/situate/faults", data, method=method)
        ) as answer:
            answer.read()


@contextmanager
def embedded(folder: Path) -> Iterator[Target]:
    with server("bench.serving") as running:
        path = folder / "embedded.kubeconfig"
        write_kubeconfig(path, kubeconfig(running.url))
        yield Target("embedded", running.url, path, (running.pid,))


class Bench:
    """What the rows of one run have in common; servers end with its block."""

    def __init__(self, size: Size, folder: Path) -> None:
        self.size = size
        self.folder = folder
        self._kept = ExitStack()
        self._server: Target | None = None

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()

    @contextmanager
    def embedded(self) -> Iterator[Target]:
        """A fresh one, unless the size says that all rows share it."""
        if not self.size.one_server:
            with embedded(self.folder) as target:
                yield target
            return
        if self._server is None:
            self._server = self._kept.enter_context(embedded(self.folder))
        yield self._server


@contextmanager
def real(folder: Path, options: Options | None = None) -> Iterator[Target]:
    """etcd and kube-apiserver, and what the options add."""
    with ControlPlane(folder / "control-plane", options, programs=build(say=print)) as plane:
        yield reached(plane)


def reached(plane: ControlPlane) -> Target:
    pids = tuple(plane.component(name).pid for name in plane.options.names())
    return Target("etcd and kube-apiserver", plane.url, plane.kubeconfig(), pids, plane)


@dataclass(slots=True)
class Seen:
    """What the watch has told of one object; times are of this process's clock."""

    placed: list[tuple[float, str]] = field(default_factory=list)
    """When it got another executor, and which."""
    released_at: float | None = None
    """When it was last nobody's after it was somebody's."""
    completed_at: float | None = None
    deleted_at: float | None = None
    epoch: int = 0
    versions: int = 0
    """Events, so writes that changed it."""


class Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = {}


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    assigned_to: str = ""


class _Status(msgspec.Struct, gc=False, rename="camel"):
    completed_at: str = ""


class _Object(msgspec.Struct, gc=False):
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct, gc=False):
    type: str
    object: _Object


class _Versioned(Protocol):
    @property
    def metadata(self) -> Metadata: ...


T = TypeVar("T")


class Told(Protocol):
    """An event of a watch, with as much of its object as somebody wants to know."""

    @property
    def type(self) -> str: ...
    @property
    def object(self) -> _Versioned: ...


E = TypeVar("E", bound=Told)


class Watch:
    """All that happens to the objects of a namespace from its beginning on."""

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}
        self.assigned = self.completed = self.deleted = 0
        """Objects that have been, so far."""
        self.moves = 0
        """Assignments after the first one of an object."""
        self.first_at = self.last_at = 0.0
        """Of the assignments that were the first of their objects."""

    def saw(self, event: _Event, now: float) -> None:
        found = event.object
        seen = self.seen.setdefault(found.metadata.name, Seen())
        seen.versions += 1
        executor = found.spec.assigned_to
        epoch = int(found.metadata.annotations.get(EPOCH, 0))
        if executor and epoch != seen.epoch:
            self._placed(seen, executor, now)
        elif not executor and seen.placed and epoch == seen.epoch:
            seen.released_at = now
        seen.epoch = epoch
        if found.status.completed_at and seen.completed_at is None:
            seen.completed_at = now
            self.completed += 1
        if event.type == "DELETED":
            seen.deleted_at = now
            self.deleted += 1

    def _placed(self, seen: Seen, executor: str, now: float) -> None:
        if seen.placed:
            self.moves += 1
        else:
            self.assigned += 1
            self.first_at = self.first_at or now
            self.last_at = now
        seen.placed.append((now, executor))

    def placed(self, name: str) -> bool:
        """Whether it ever was."""
        return name in self.seen and bool(self.seen[name].placed)

    def held_by(self, executor: str) -> list[str]:
        """Names of the objects whose last executor it is."""
        return [name for name, seen in self.seen.items() if seen.placed and seen.placed[-1][1] == executor]

    def counts(self) -> dict[str, int]:
        """Open objects of each executor."""
        found: dict[str, int] = {}
        for seen in self.seen.values():
            if seen.placed and seen.completed_at is None:
                found[seen.placed[-1][1]] = found.get(seen.placed[-1][1], 0) + 1
        return found

    async def follow(self, client: Client, namespace: str, version: str) -> None:
        async for event in events(client, UNITS, namespace, version, _Event):
            self.saw(event, time.perf_counter())


async def events(
    client: Client, resource: ResourceType[Any], namespace: str, version: str, shape: type[E]
) -> AsyncIterator[E]:
    """All of them from that version on. Of a kind that was defined a moment ago kube-apiserver ends the watches, and
    says for a while, in one way or the other, that it is not ready."""
    decode = msgspec.json.Decoder(shape).decode
    while True:
        with suppress(TooManyRequests):
            async with client.watch(resource, namespace, resource_version=version, timeout_s=3600) as batches:
                async for lines in batches:
                    for line in lines:
                        if line.startswith(b'{"type":"ERROR"'):
                            if b'"code":410' in line:
                                raise SystemExit(f"the watch of the benchmark has lost events: {line[:300]!r}")
                            break
                        event = decode(line)
                        version = event.object.metadata.resource_version
                        if event.type != "BOOKMARK":
                            yield event
        await asyncio.sleep(_POLL_S)


class Place:
    """A namespace on a server, and the processes at work there; all of them end with the block."""

    def __init__(self, target: Target, folder: Path, client: Client) -> None:
        self.target = target
        self.client = client
        self.namespace = f"units-{uuid.uuid4().hex[:8]}"
        self.watch = Watch()
        self.watching: list[asyncio.Task[None]] = []
        """What must go on as long as anything is waited for."""
        self.processes: dict[str, Process] = {}
        self._folder = folder

    async def supervisor(self, name: str, *more: str, ready: bool = True) -> Process:
        """`ready`: whether to wait until executors and objects are listed."""
        return await self._start(name, ("supervisor", name, *more), ready=ready)

    async def executor(self, name: str, *more: str, ready: bool = True) -> Process:
        """In a pod that is ready."""
        uid = await self.pod(name)
        return await self._start(name, ("executor", name, uid, *more), ready=ready)

    async def stand_in(self, name: str) -> None:
        """An executor that is there, and has no process: its Lease lasts as long as the benchmark."""
        uid, now = await self.pod(name), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        metadata = {
            "name": f"default.{name}.{uid[:8]}",
            "labels": {POOL: "default"},
            "annotations": {EXECUTOR: name, EXECUTOR_UID: uid, STATUS: "{}"},
        }
        spec = {
            "holderIdentity": uid,
            "leaseDurationSeconds": int(LONGEST_LEASE_S),
            "acquireTime": now,
            "renewTime": now,
        }
        await self.client.create(LEASES, {"metadata": metadata, "spec": spec}, self.namespace)

    async def pod(self, name: str) -> str:
        """One that is ready; its UID."""
        spec = {
            "schedulerName": "nobody",
            "automountServiceAccountToken": False,
            "containers": [{"name": "executor", "image": "units"}],
        }
        body = {"metadata": {"name": name, "labels": LABELS}, "spec": spec}
        made = await self.client.create(PODS, body, self.namespace)
        await self.tell_pod(name, {"running": {}}, ready=True)
        return made.metadata.uid

    async def tell_pod(self, name: str, state: dict[str, Any], *, ready: bool) -> None:
        """What the kubelet would say of it."""
        container = {"name": "executor", "ready": ready, "restartCount": 0, "image": "units", "imageID": ""}
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [container | {"state": state}],
        }
        await self.client.patch_status(PODS, name, MergePatch({"status": status}), self.namespace)

    async def create(self, names: Iterable[str]) -> None:
        """All of them, many at a time."""
        await many(self.create_one, names)

    async def create_one(self, name: str) -> None:
        """As a user does."""
        await self.client.create(UNITS, {"metadata": {"name": name}, "spec": {"input": _INPUT}}, self.namespace)

    async def create_completed(self, name: str, finalizers: Sequence[str]) -> None:
        """As it is when an executor has done it."""
        metadata = {"name": name, "finalizers": [*finalizers]}
        await self.client.create(UNITS, {"metadata": metadata, "spec": {"input": _INPUT}}, self.namespace)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {"completedAt": now, "successful": True, "reason": "Done"}
        await self.client.patch_status(UNITS, name, MergePatch({"status": status}), self.namespace)

    async def until(self, what: str, holds: Callable[[], bool], within_s: float = PATIENCE_S) -> float:
        """The moment in which it was found to hold. No process and no watch may end meanwhile by itself."""
        deadline = time.perf_counter() + within_s
        while not holds():
            for each in self.watching:
                if each.done():
                    each.result()
            if gone := [each for each in self.processes.values() if not each.running]:
                raise SystemExit(f"{what}: {gone[0].name} has ended: {gone[0].tail(40)}")
            if time.perf_counter() > deadline:
                ends = "\n".join(each.tail() for each in self.processes.values())
                raise SystemExit(f"{what}: not within {within_s:g} s\n{ends}")
            await asyncio.sleep(_POLL_S)
        return time.perf_counter()

    async def _start(self, name: str, arguments: tuple[str, ...], *, ready: bool) -> Process:
        command = (sys.executable, "-m", "bench.shard_member", str(self.target.kubeconfig), self.namespace)
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment = {**kept, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        log = self._folder / f"{self.namespace}-{name}.log"
        log.unlink(missing_ok=True)  # of an earlier one of this name, which was ready once
        process = Process(name, (*command, *arguments), log, environment=environment)
        self.processes[name] = process
        process.start()
        if ready:
            await self.ready(name)
        return process

    async def ready(self, name: str) -> float:
        """When it said so."""
        log = self.processes[name].log
        return await self.until(f"{name} is ready", lambda: b"ready" in log.read_bytes())

    async def stop(self, name: str) -> None:
        """As Kubernetes does."""
        await asyncio.to_thread(self.processes.pop(name).stop, timeout_s=30.0)

    def follow(self, watch: Coroutine[Any, Any, None]) -> None:
        """As long as the place is there."""
        self.watching.append(asyncio.create_task(watch))

    def end(self) -> None:
        for each in self.watching:
            each.cancel()
        for process in self.processes.values():
            process.kill()


@asynccontextmanager
async def place(target: Target, folder: Path) -> AsyncIterator[Place]:
    """A new one, watched from now on."""
    async with AsyncExitStack() as cleanup:
        client = connect(find_connection(target.kubeconfig), Random(1))
        cleanup.push_async_callback(client.close)
        made = Place(target, folder, client)
        await _ensure(client, _CRDS, _definition())
        await _ensure(client, _NAMESPACES, {"metadata": {"name": made.namespace}})
        version = await _served(client, made.namespace)
        made.follow(made.watch.follow(client, made.namespace, version))
        cleanup.callback(made.end)
        yield made


async def many(call: Callable[[T], Awaitable[object]], arguments: Iterable[T]) -> None:
    """For each of them, so many at a time."""
    waiting = iter(arguments)

    async def work() -> None:
        for argument in waiting:
            await call(argument)

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(work())


async def _ensure(client: Client, resource: ResourceType[Unstructured], content: dict[str, Any]) -> None:
    with suppress(AlreadyExists):
        await client.create(resource, content)


async def _served(client: Client, namespace: str) -> str:
    """The resourceVersion now, as soon as the kind is served."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return (await client.list(UNITS, namespace, limit=1)).resource_version
        except NotFound:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)


def _definition() -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": "units", "singular": "unit", "kind": "Unit"}
    spec = {"group": UNITS.group, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": UNITS.group_resource}, "spec": spec}
