"""A process that is killed after each kind of call that it makes, and begun anew each time; then it lives.

`python -m tests.sharding.processes.mortal` with the arguments of `supervised`. Each life is a process of its own,
forked from one that has only imported, and ends when the first call of its kind is answered, before anything is done
with the answer. That is between this call and each that may follow: what has not been sent yet lies in the memory that
is lost. A call that is not listed here ends everything, and one that is made no more leaves its life without an end:
whoever waits for all the deaths notices both.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from situate.archive.protocol import Archiver
from situate.archive.query import Page, Query
from situate.archive.record import ByName, ByUid, Record
from situate.kube.client import Client
from situate.kube.connect import find_connection
from situate.kube.connection import Connection
from situate.kube.patches import MergePatch
from situate.kube.transport import Stream, Transport
from situate.objects.messages import Request, Response
from situate.objects.resources import LEASES
from situate.sharding.leases import LeaseTimes
from situate.testing.sharding.shipped.reports import REPORTS
from tests.sharding.processes import supervised
from tests.sharding.processes.hearing import client_of, hearing, transport_of

TIMES: Final = LeaseTimes(lease_s=60.0, renew_s=1.0, retry_s=0.3, renew_deadline_s=6.0, cancel_grace_s=2.4)
"""Whoever is begun anew at once keeps its Lease, also on a machine that is busy: the test is about calls."""
LEASE: Final = f"{REPORTS.group_resource}.default.supervisor"
CALLS: Final = {
    "executor": (
        "makes its Lease",
        "reads its Lease",
        "renews its Lease",
        "watches",
        "lists",
        "reads an object",
        "writes a status",
        "completes",
        "releases",
        "gives its Lease back",
    ),
    "supervisor": (
        "watches",
        "reads its Lease",
        "takes its Lease",
        "renews its Lease",
        "reports",
        "lists",
        "assigns",
        "asks to drain",
        "says why",
        "tells",
        "reads an object",
        "stores a record",
        "reads a record",
        "lets go",
        "deletes",
        "gives its Lease back",
    ),
}
"""By role, of a unit of work's life and of the process's own."""
_NOW_AND_THEN: Final = frozenset(("asks after an executor",))
_T = TypeVar("_T")


def told(call: str) -> str:
    """The line of a life that has ended after this call."""
    return f"a life has ended: {call}"


def call_of(request: Request, role: str) -> str:
    """Its name in `CALLS`; what has none is called as it is sent."""
    method, path = request.method, request.path
    body: Any = json.loads(request.body) if request.body else {}
    collection, _, name = path.rpartition("/")
    if method == "GET" and name in ("leases", "pods", "nodes", REPORTS.plural):
        return "lists"
    if collection.endswith("/leases") or name == "leases":
        return _of_lease(method, name, body, role)
    if "/events" in path and method in ("POST", "PATCH"):
        return "tells"
    if f"/{REPORTS.plural}/" in path:
        return _of_object(method, path, body, role)
    return f"{method} {path}"


def _of_lease(method: str, name: str, body: Any, role: str) -> str:
    if method == "GET":
        return "asks after an executor" if role == "supervisor" and name != LEASE else "reads its Lease"
    spec = body.get("spec")
    if not spec:
        return "reports"
    if not spec["holderIdentity"]:
        return "gives its Lease back"
    if method == "POST":
        return "makes its Lease"
    begins = role == "supervisor" and spec["acquireTime"] == spec["renewTime"]
    return "takes its Lease" if begins else "renews its Lease"


def _of_object(method: str, path: str, body: Any, role: str) -> str:
    if method in ("GET", "DELETE"):
        return {"GET": "reads an object", "DELETE": "deletes"}[method]
    changed = " ".join(each["path"] + " " for each in body if each["op"] != "test")
    if path.endswith("/status"):
        ends = "completes" if "completedAt" in str(body) else "writes a status"
        return "says why" if role == "supervisor" else ends
    if role == "executor":
        return "releases"
    if "~1epoch " in changed or "/annotations " in changed:
        return "assigns"
    return "asks to drain" if "~1drain " in changed else "lets go"


class Life:
    """Ends after its call."""

    def __init__(self, role: str, last: str) -> None:
        self.role = role
        self._last = last
        self._ending = False

    async def makes(self, call: str, made: Awaitable[_T]) -> _T:
        if call not in CALLS[self.role] and call not in _NOW_AND_THEN:
            print(f"a call that nobody has thought of: {call}", flush=True)
            os._exit(3)
        answer = await made
        if call == self._last:
            print(told(call), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if self._last == "gives its Lease back" and call in ("assigns", "writes a status") and not self._ending:
            self._ending = True
            os.kill(os.getpid(), signal.SIGTERM)
        return answer


class Mortal:
    """The transport of a life."""

    def __init__(self, transport: Transport, life: Life) -> None:
        self._transport = transport
        self._life = life

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        call = call_of(request, self._life.role)
        return await self._life.makes(call, self._transport.send(request, timeout_s=timeout_s))

    def stream(self, request: Request, *, timeout_s: float = 30.0) -> AbstractAsyncContextManager[Stream]:
        return self._opened(request, timeout_s)

    @asynccontextmanager
    async def _opened(self, request: Request, timeout_s: float) -> AsyncIterator[Stream]:
        async with self._transport.stream(request, timeout_s=timeout_s) as stream:
            await self._life.makes("watches", asyncio.sleep(0))
            yield stream

    async def close(self) -> None:
        await self._transport.close()


class MortalArchiver:
    """The archive of a life, as far as supervisors use it."""

    def __init__(self, archiver: Archiver, life: Life) -> None:
        self._archiver = archiver
        self._life = life

    async def put(self, record: Record) -> None:
        await self._life.makes("stores a record", self._archiver.put(record))

    async def get(self, key: ByUid | ByName) -> Record:
        return await self._life.makes("reads a record", self._archiver.get(key))

    async def search(self, query: Query) -> Page:
        return await self._archiver.search(query)

    async def delete(self, key: ByUid) -> None:
        await self._archiver.delete(key)

    async def check(self) -> None:
        await self._archiver.check()

    async def close(self) -> None:
        await self._archiver.close()


def live(role: str, last: str, arguments: list[str]) -> None:
    life = Life(role, last)

    def connected(connection: Connection) -> Client:
        return client_of(Mortal(transport_of(connection), life))

    def archiving(archiver: Archiver) -> Archiver:
        return MortalArchiver(archiver, life)

    asyncio.run(supervised.main(*arguments, connected=connected, archiving=archiving, times=TIMES))


async def bury(kubeconfig: str, namespace: str) -> None:
    """Its Lease as if its time had run out: waiting for that proves nothing here."""
    client = hearing(find_connection(Path(kubeconfig)))
    await client.patch(LEASES, LEASE, MergePatch({"spec": {"holderIdentity": ""}}), namespace)
    await client.close()


def main(*arguments: str) -> None:
    kubeconfig, namespace, role, *_ = arguments
    for last in CALLS[role]:
        child = os.fork()
        if child == 0:
            live(role, last, [*arguments])
            os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"the life that was to end after it {last} has ended by itself: {status}"
        if role == "supervisor":
            asyncio.run(bury(kubeconfig, namespace))
    asyncio.run(supervised.main(*arguments, times=TIMES))


if __name__ == "__main__":
    main(*sys.argv[1:])
