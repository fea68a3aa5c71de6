"""A plain client of an API server: a request in, status, headers and body out; nothing is retried or interpreted."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.waiting import WITHIN_S

Json = dict[str, Any]

PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: Any  # decoded JSON, or text

    def ok(self, status: int | None = None) -> Any:
        """The body of a request that must succeed."""
        assert self.status == status if status else self.status < 300, f"{self.status}: {self.body}"
        return self.body

    def refused(self, code: int, reason: str | None, message: str, details: Any = None) -> Json:
        """Demands exactly this Status; a message that ends with `…` is a beginning; details `...` are any."""
        assert isinstance(self.body, dict), f"{self.status}: {self.body}"
        assert self.body.get("kind") == "Status", f"{self.status}: {self.body}"
        seen = {key: value for key, value in self.body.items() if key != "metadata"}
        if message.endswith("…"):
            assert seen["message"].startswith(message[:-1]), seen["message"]
            message = seen["message"]
        want: Json = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
        if reason is not None:
            want["reason"] = reason
        if details is ...:
            seen.pop("details", None)
        elif details is not None:
            want["details"] = details
        assert seen == want
        assert self.status == code
        return self.body


class Watch:
    """An open watch; `next` waits for an event, `rest` reads until the server ends it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self._response = response
        self._buffer = b""

    async def next(self, timeout_s: float = WITHIN_S) -> Json:
        async with asyncio.timeout(timeout_s):
            line = await self._line()
        assert line is not None, "the server ended the watch"
        return line

    async def take(self, count: int, timeout_s: float = WITHIN_S) -> list[Json]:
        return [await self.next(timeout_s) for _ in range(count)]

    async def until(self, kind: str, timeout_s: float = WITHIN_S) -> list[Json]:
        """Every event up to and with the first of that type."""
        events: list[Json] = []
        while not events or events[-1]["type"] != kind:
            events.append(await self.next(timeout_s))
        return events

    async def silent(self, seconds: float) -> bool:
        """Whether nothing comes within that time."""
        try:
            event = await self.next(seconds)
        except TimeoutError:
            return True
        assert not event, f"unexpected {event}"
        return False

    async def rest(self, timeout_s: float = WITHIN_S) -> list[Json]:
        events = []
        async with asyncio.timeout(timeout_s):
            while (line := await self._line()) is not None:
                events.append(line)
        return events

    async def _line(self) -> Json | None:
        while b"\n" not in self._buffer:
            chunk = await self._response.content.readany()
            if not chunk:
                return json.loads(self._buffer) if self._buffer.strip() else None
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return dict(json.loads(line))


class Api:
    """Requests of one user to one server."""

    def __init__(self, url: str, token: str, tls: ssl.SSLContext | None) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._tls = tls
        self._session = self._open()

    async def __aenter__(self) -> Api:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def reconnect(self) -> None:
        """Forgets its connections, which a server that was killed has left half open."""
        await self._session.close()
        self._session = self._open()

    def _open(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(ssl=self._tls) if self._tls else aiohttp.TCPConnector()
        return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60))

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        **query: Any,
    ) -> Answer:
        """`query` values are written as Go reads them: True is `true`."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {**self._headers, "Accept": accept, **({"Content-Type": content_type} if data is not None else {})}
        parameters = {name: _go(value) for name, value in query.items()}
        async with self._session.request(
            method, self._url + path, data=data, headers=headers, params=parameters
        ) as response:
            text = await response.text()
            try:
                decoded = json.loads(text)
            except ValueError:
                decoded = text
            return Answer(response.status, dict(response.headers), decoded)

    async def get(self, path: str, **query: Any) -> Answer:
        return await self.call("GET", path, **query)

    async def post(self, path: str, body: Any, **query: Any) -> Answer:
        return await self.call("POST", path, body, **query)

    async def put(self, path: str, body: Any, **query: Any) -> Answer:
        return await self.call("PUT", path, body, **query)

    async def patch(self, path: str, body: Any, *, form: str = "merge", **query: Any) -> Answer:
        return await self.call("PATCH", path, body, content_type=PATCHES[form], **query)

    async def apply(self, path: str, body: Json, *, manager: str, **query: Any) -> Answer:
        return await self.patch(path, body, form="apply", fieldManager=manager, **query)

    async def delete(self, path: str, options: Json | None = None, **query: Any) -> Answer:
        return await self.call("DELETE", path, options, **query)

    @asynccontextmanager
    async def watch(self, path: str, *, headers: Mapping[str, str] | None = None, **query: Any) -> AsyncIterator[Watch]:
        parameters = {"watch": "true", **{name: _go(value) for name, value in query.items()}}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        async with self._session.get(
            self._url + path, headers={**self._headers, **(headers or {})}, params=parameters, timeout=timeout
        ) as response:
            connection = response.connection
            try:
                yield Watch(response)
            finally:
                # A watch is left in the middle. An orderly end of TLS would outlive the test's event loop.
                if connection is not None and connection.transport is not None:
                    connection.transport.abort()
                    await asyncio.sleep(0)


def _go(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def causes(answer: Answer) -> list[tuple[str, str, str]]:
    """(reason, field, message) of each cause in the details."""
    return [
        (cause.get("reason", ""), cause.get("field", ""), cause.get("message", ""))
        for cause in answer.body.get("details", {}).get("causes", [])
    ]
