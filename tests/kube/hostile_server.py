"""A small API server in memory that misbehaves on demand: the fake for everything that watches, elects and reports.

It knows collections of plain JSON objects, create, get, list with paging, merge patch and watch with WatchList; a test
says what goes wrong. `cluster` and `embedded` are the faithful servers; this one is for what they never do.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from situate.kube.errors import Unreachable
from situate.objects.messages import Request, Response

Object = dict[str, Any]


@dataclass
class Fault:
    """What happens to one request instead of, or after, its being carried out."""

    status: int = 0
    """Refuse with this status; 0 carries it out."""
    reason: str = ""
    message: str = "on purpose"
    headers: Mapping[str, str] = field(default_factory=dict)
    lost_request: bool = False
    """It never arrives."""
    lost_answer: bool = False
    """It is carried out, and nobody is told."""
    delay_s: float = 0.0
    """Before it is carried out."""
    answer_delay_s: float = 0.0
    """After it was carried out."""


Judge = Callable[[Request], Fault | None]


class HostileServer:
    """A `Transport` and the server behind it."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, Object] = {}
        """By path."""
        self.log: list[tuple[int, str, str, Object]] = []
        """(version, type, collection, object)."""
        self.requests: list[Request] = []
        self.judge: Judge = lambda _: None
        self.watch_list = True
        """False: sendInitialEvents is refused as by a server without the feature."""
        self.ignores_initial_events = False
        """True: as by a server that does not know the parameter."""
        self.oldest = 0
        """Watches from before this version are expired."""
        self.chunk = 1 << 16
        self.bookmark_every_s = 60.0
        self.mangle: Callable[[list[bytes]], list[bytes]] = lambda lines: lines
        """Changes the lines of events that are about to be sent."""
        self.streams: list[_Stream] = []
        self.closed = False

    # What a test does to the server.

    def put(self, path: str, content: Object | None = None) -> Object:
        """Creates or changes an object."""
        known = self.objects.get(path)
        self.version += 1
        collection, _, name = path.rpartition("/")
        new: Object = json.loads(json.dumps(content if content is not None else known or {}))
        meta = new.setdefault("metadata", {})
        parts = path.split("/")
        if "namespaces" in parts[:-2]:
            meta["namespace"] = parts[parts.index("namespaces") + 1]
        meta["name"] = name
        meta["uid"] = known["metadata"]["uid"] if known else f"uid-{self.version}"
        meta["resourceVersion"] = str(self.version)
        self.objects[path] = new
        self._happened("MODIFIED" if known else "ADDED", collection, new)
        return new

    def remove(self, path: str) -> None:
        """Deletes an object."""
        gone = self.objects.pop(path)
        self.version += 1
        gone = gone | {"metadata": gone["metadata"] | {"resourceVersion": str(self.version)}}
        self._happened("DELETED", path.rpartition("/")[0], gone)

    def compact(self) -> None:
        """Forgets history: whoever watches from before now gets 410."""
        self.oldest = self.version
        self.log.clear()

    def hang_up(self) -> None:
        """Ends every stream."""
        for stream in self.streams:
            stream.end(None)

    def break_streams(self) -> None:
        """Cuts every stream in the middle."""
        for stream in self.streams:
            stream.end(Unreachable("connection reset", outcome_unknown=True))

    def say(self, *lines: bytes) -> None:
        """Sends lines of any content to every stream."""
        for stream in self.streams:
            stream.send(lines)

    # The Transport.

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        self.requests.append(request)
        fault = self._fault(request)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._served(request, fault)
        except TimeoutError:
            raise Unreachable("timed out", outcome_unknown=True) from None

    async def _served(self, request: Request, fault: Fault) -> Response:
        await asyncio.sleep(fault.delay_s)
        if fault.lost_request:
            await asyncio.sleep(3600)
        response = self._refused(fault) if fault.status else self._carried_out(request)
        await asyncio.sleep(fault.answer_delay_s)
        if fault.lost_answer:
            await asyncio.sleep(3600)
        return response

    @asynccontextmanager
    async def stream(self, request: Request, *, timeout_s: float = 30.0) -> AsyncIterator[_Stream]:
        self.requests.append(request)
        fault = self._fault(request)
        await asyncio.sleep(fault.delay_s)
        stream = _Stream(self, request)
        if fault.status:
            response = self._refused(fault)
            stream.status, stream.headers = response.status, response.headers
            stream.queue.put_nowait(response.body)
            stream.end(None)
        else:
            self._begin(stream)
        self.streams.append(stream)
        try:
            yield stream
        finally:
            self.streams.remove(stream)
            stream.end(None)

    async def close(self) -> None:
        self.closed = True
        self.break_streams()

    def _fault(self, request: Request) -> Fault:
        if self.closed:
            raise Unreachable("closed", outcome_unknown=False, retriable=False)
        return self.judge(request) or Fault()

    def _refused(self, fault: Fault) -> Response:
        return _status(fault.status, fault.reason, fault.message, fault.headers)

    def _carried_out(self, request: Request) -> Response:
        known = self.objects.get(request.path)
        match request.method:
            case "GET" if known is not None:
                return _json(200, known)
            case "GET" if not request.path.rsplit("/", 1)[-1].startswith("lost"):
                collections = {path.rpartition("/")[0] for path in self.objects} | {"/api/v1/pods"}
                if request.path in collections or request.path.endswith(("pods", "leases", "events")):
                    return self._list(request)
                return _status(404, "NotFound", f"{request.path} not found")
            case "POST":
                body = json.loads(request.body)
                path = f"{request.path}/{body['metadata']['name']}"
                if path in self.objects:
                    return _status(409, "AlreadyExists", f"{path} already exists")
                return _json(201, self.put(path, body))
            case "PATCH" | "PUT" if known is not None:
                body = json.loads(request.body)
                wanted = body.get("metadata", {}).get("resourceVersion")
                if wanted and wanted != known["metadata"]["resourceVersion"]:
                    return _status(409, "Conflict", "the object has been modified")
                return _json(200, self.put(request.path, _merged(known, body)))
            case _:
                return _status(404, "NotFound", f"{request.path} not found")

    def _list(self, request: Request) -> Response:
        items = self._collection(request.path)
        start = int(request.parameter("continue") or 0)
        limit = int(request.parameter("limit") or 0) or len(items) or 1
        page = items[start : start + limit]
        more = str(start + limit) if start + limit < len(items) else ""
        return _json(200, {"metadata": {"resourceVersion": str(self.version), "continue": more}, "items": page})

    def _collection(self, path: str) -> list[Object]:
        return [each for key, each in self.objects.items() if _within(key.rpartition("/")[0], path)]

    def _begin(self, stream: _Stream) -> None:
        request = stream.request
        initial = request.parameter("sendInitialEvents") == "true"
        version = int(request.parameter("resourceVersion") or 0)
        if initial and not self.watch_list:
            refused = _status(422, "Invalid", "sendInitialEvents is forbidden for watch unless WatchList is enabled")
            stream.status = refused.status
            stream.queue.put_nowait(refused.body)
            stream.end(None)
        elif initial or not version:
            stream.send([_event("ADDED", each) for each in self._collection(request.path)])
            if initial and not self.ignores_initial_events:
                stream.send([_bookmark(self.version, {"k8s.io/initial-events-end": "true"})])
            stream.live = True
        elif version < self.oldest:
            gone = {
                "kind": "Status",
                "code": 410,
                "reason": "Expired",
                "message": f"too old resource version: {version}",
            }
            stream.send([_event("ERROR", gone)])
            stream.end(None)
        else:
            missed = [each for each in self.log if each[0] > version and _within(each[2], request.path)]
            stream.send(self.mangle([_event(kind, content) for _, kind, _, content in missed]))
            stream.live = True

    def _happened(self, kind: str, collection: str, content: Object) -> None:
        self.log.append((self.version, kind, collection, content))
        for stream in self.streams:
            if stream.live and _within(collection, stream.request.path):
                stream.send(self.mangle([_event(kind, content)]))


class _Stream:
    def __init__(self, server: HostileServer, request: Request) -> None:
        self.server = server
        self.request = request
        self.status = 200
        self.headers: Mapping[str, str] = {}
        self.live = False
        self.queue: asyncio.Queue[bytes | Unreachable | None] = asyncio.Queue()

    def send(self, lines: Any) -> None:
        for line in lines:
            self.queue.put_nowait(line + b"\n")

    def end(self, problem: Unreachable | None) -> None:
        self.live = False
        self.queue.put_nowait(problem)

    async def batches(self) -> AsyncIterator[Sequence[bytes]]:
        timeout_s = float(self.request.parameter("timeoutSeconds") or 3600)
        ends_at = asyncio.get_running_loop().time() + timeout_s
        while True:
            left_s = ends_at - asyncio.get_running_loop().time()
            if left_s <= 0:
                return
            try:
                async with asyncio.timeout(min(left_s, self.server.bookmark_every_s)):
                    got = await self.queue.get()
            except TimeoutError:
                if self.live and self.server.bookmark_every_s < left_s:
                    self.send([_bookmark(self.server.version, {})])
                continue
            if got is None:
                return
            if isinstance(got, Unreachable):
                raise got
            for start in range(0, len(got), self.server.chunk):
                yield (got[start : start + self.server.chunk],)


def _within(collection: str, asked: str) -> bool:
    """A collection of all namespaces holds those of each."""
    if collection == asked:
        return True
    head, _, plural = asked.rpartition("/")
    return collection.startswith(f"{head}/namespaces/") and collection.endswith(f"/{plural}")


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict) or not isinstance(old, dict):
        return patch
    new = dict(old)
    for key, each in patch.items():
        if each is None:
            new.pop(key, None)
        else:
            new[key] = _merged(new.get(key, {}), each)
    return new


def _json(status: int, content: Object, headers: Mapping[str, str] | None = None) -> Response:
    return Response(status, json.dumps(content).encode(), headers or {})


def _status(code: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return _json(code, body, headers)


def _event(kind: str, content: Object) -> bytes:
    return json.dumps({"type": kind, "object": content}).encode()


def _bookmark(version: int, annotations: Mapping[str, str]) -> bytes:
    meta = {"resourceVersion": str(version), "annotations": dict(annotations), "creationTimestamp": None}
    return _event("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"containers": None}})


async def settle(condition: Callable[[], bool], within_s: float = 3600.0) -> None:
    """Lets virtual time pass until the condition holds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while not condition():
        if loop.time() > end:
            raise AssertionError(f"not so within {within_s} virtual seconds")
        await asyncio.sleep(0.25)
