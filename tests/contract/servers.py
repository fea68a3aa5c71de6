"""The two servers that the suite is asked of."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
import uuid
from pathlib import Path
from typing import Protocol

from situate.cluster.errors.times import timestamp
from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.embedded.kubeconfig import write_kubeconfig
from tests.contract.api import Api
from tests.controlplane.plane import ControlPlane
from tests.waiting import WITHIN_S


class Server(Protocol):
    @property
    def name(self) -> str:
        """real or embedded."""
        ...

    @property
    def url(self) -> str: ...

    @property
    def token(self) -> str:
        """Of somebody who may do everything."""
        ...

    def tls(self) -> ssl.SSLContext | None: ...

    def kubeconfig(self, folder: Path) -> Path:
        """A file for kubectl that makes it the same somebody."""
        ...

    def compact_history(self) -> None:
        """Lets the storage forget the past; what the server itself still knows, it may use."""
        ...

    def expire_history(self) -> None:
        """Makes every earlier resourceVersion and continue token too old. May restart the server."""
        ...

    def backdate(self, namespace: str, pod: str, created: int, seconds: int) -> None:
        """Lets a pod be older by so many seconds than `created` (Unix seconds) says, which no request can."""
        ...


class RealServer:
    name = "real"

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.url = plane.url
        self.token = plane.token()
        self._tls = plane.tls()

    def tls(self) -> ssl.SSLContext:
        return self._tls

    def kubeconfig(self, folder: Path) -> Path:
        return self.plane.kubeconfig()

    def compact_history(self) -> None:
        self.plane.compact()

    def expire_history(self) -> None:
        self.plane.expire_history()

    def backdate(self, namespace: str, pod: str, created: int, seconds: int) -> None:
        old, new = (_creation_timestamp(each) for each in (created, created - seconds))
        self.plane.rewrite_stored("pods", namespace, pod, old, new)


class EmbeddedThread:
    """The embedded server on an event loop of its own, which no test's loop can hold up."""

    name = "embedded"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="embedded server", daemon=True)
        self._server = EmbeddedServer(settings)
        self.token = next(iter(settings.tokens))

    @property
    def url(self) -> str:
        return self._server.url

    def __enter__(self) -> EmbeddedThread:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._server.start(), self._loop).result(WITHIN_S)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(WITHIN_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WITHIN_S)
        self._loop.close()

    def tls(self) -> None:
        return None

    def kubeconfig(self, folder: Path) -> Path:
        path = folder / "kubeconfig"
        write_kubeconfig(path, self._server.kubeconfig())
        return path

    def compact_history(self) -> None:
        self._compact("")

    def expire_history(self) -> None:
        self._compact("?pages=true")

    def backdate(self, namespace: str, pod: str, created: int, seconds: int) -> None:
        async def rewrite() -> None:
            store = self._server.api.store
            stored = store.get("pods", namespace, pod)
            assert stored is not None
            content = stored.object()
            content["metadata"]["creationTimestamp"] = timestamp(created - seconds)
            store.put("pods", content, managed=stored.managed, fields=stored.fields)

        asyncio.run_coroutine_threadsafe(rewrite(), self._loop).result(WITHIN_S)

    def silence(self, node: str, silent: bool) -> None:
        """Stops a node's kubelet, or starts it again."""
        self._order("PUT", f"/situate/kubelets/{node}", json.dumps({"running": not silent}).encode())

    def _compact(self, query: str) -> None:
        # A write of our own comes first, since the last version stays readable, as in etcd.
        self._order("POST", "/api/v1/namespaces/default/configmaps", b'{"metadata": {"generateName": "tick-"}}')
        self._order("POST", f"/situate/faults/compact{query}")

    def _order(self, method: str, path: str, body: bytes = b"") -> None:
        connection = http.client.HTTPConnection("127.0.0.1", int(self.url.rsplit(":", 1)[1]), timeout=WITHIN_S)
        try:
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status in (200, 201), text
        finally:
            connection.close()


def _creation_timestamp(at: int) -> bytes:
    """As ObjectMeta has it in protobuf (meta/v1 generated.proto): field 8, a Time of seconds and no nanoseconds."""
    seconds = bytearray()
    while at > 0x7F:
        seconds.append(at & 0x7F | 0x80)
        at >>= 7
    seconds.append(at)
    time = b"\x08" + bytes(seconds) + b"\x10\x00"
    return b"\x42" + bytes([len(time)]) + time


async def expire(api: Api, server: Server) -> None:
    """Makes every resourceVersion and continue token so far too old."""
    await asyncio.to_thread(server.expire_history)
    await api.reconnect()


async def new_namespace(api: Api) -> str:
    name = f"t-{uuid.uuid4().hex[:10]}"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).ok(201)
    return name
