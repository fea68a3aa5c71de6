"""Requests to the API server by the hundred, and a watch on pods: plain sockets that stay open."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import urlencode

from tests.controlplane.plane import ControlPlane

Object = dict[str, Any]
"""Of the Kubernetes API, as JSON."""
T = TypeVar("T")

_AT_ONCE = 8
_PATIENCE_S = 80.0
"""More than any answer takes on a busy machine; then something hangs. The server keeps idle connections for 90 s."""


class Refused(Exception):
    """The API server does not want the request."""

    def __init__(self, request: str, status: int, answer: str) -> None:
        super().__init__(f"{request}: {status} {answer}")
        self.status = status


class Api:
    """One connection for each thread; close it when done."""

    def __init__(self, plane: ControlPlane) -> None:
        self._port = plane.port
        self._tls = plane.tls()
        self._headers = {"Authorization": f"Bearer {plane.token()}"}
        self._local = threading.local()
        self._open: list[http.client.HTTPSConnection] = []
        self._threads = ThreadPoolExecutor(_AT_ONCE)

    def close(self) -> None:
        self._threads.shutdown()
        for connection in self._open:
            connection.close()

    def send(self, method: str, path: str, body: Any = None, **query: str) -> Object:
        """The answer's object; `Refused` says what the server said."""
        status, text = self._exchange(method, path + ("?" + urlencode(query) if query else ""), body)
        if status >= 300:
            raise Refused(f"{method} {path}", status, text.decode())
        answer: Object = json.loads(text)
        return answer

    def each(self, do: Callable[[T], object], items: Iterable[T]) -> None:
        """`do` for all of them, several at once and in no order; the first failure is raised."""
        for _ in self._threads.map(do, items):
            pass

    def watch(self, path: str, resource_version: str) -> Iterator[tuple[str, Object]]:
        """Type and object of each change after that version, for ever; raises `TimeoutError` after a long silence."""
        connection = self._connection()
        query = urlencode({"watch": "true", "resourceVersion": resource_version})
        try:
            connection.request("GET", f"{path}?{query}", headers=self._headers)
            answer = connection.getresponse()
            while line := answer.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise Refused(f"watch {path}", event["object"].get("code", 0), str(event["object"]))
                yield event["type"], event["object"]
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self._port, timeout=_PATIENCE_S, context=self._tls)

    def _exchange(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connection()
            self._open.append(connection)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {**self._headers, "Content-Type": kind})
        answer = connection.getresponse()
        return answer.status, answer.read()
