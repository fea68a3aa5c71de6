"""A load generator's connections: requests made beforehand go out, answers are checked, watched events are verified.

Nothing here retries, limits or decodes more than it checks: the generator and its watchers have one core between them
and must never be what a server waits for. What clients usually do is measured by `bench.client`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar, cast

import msgspec

from situate.kube.login.connection import Connection
from situate.kube.login.credentials import Login
from situate.kube.transport.dial import Target, target_of
from situate.kube.transport.http1 import AnswerParser, BadAnswer
from situate.kube.transport.tls import tls_context

P = TypeVar("P", bound=asyncio.Protocol)


class Wrong(Exception):
    """The server did not do what it should."""


@dataclass(frozen=True)
class Server:
    """Where requests go, and the headers that go with them."""

    target: Target
    context: ssl.SSLContext | None
    headers: bytes

    @classmethod
    def of(cls, connection: Connection, login: Login) -> Server:
        target = target_of(connection)
        headers = {"host": target.authority, "user-agent": "load/1", "accept": "application/json"} | dict(login.headers)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return cls(target, tls_context(connection, login.tls) if target.tls else None, lines.encode())

    async def connected(self, make: Callable[[], P]) -> P:
        loop, target = asyncio.get_running_loop(), self.target
        name = target.server_name if self.context else None
        _, protocol = await loop.create_connection(
            make, target.host, target.port, ssl=self.context, server_hostname=name
        )
        return protocol

    def get(self, path: str) -> bytes:
        return b"GET %b HTTP/1.1\r\n%b\r\n" % (path.encode(), self.headers)

    def post(self, path: str, body: bytes) -> bytes:
        head = b"POST %b HTTP/1.1\r\n%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        return head % (path.encode(), self.headers, len(body)) + body


class Creating(asyncio.Protocol):
    """One connection that sends a request once the one before it was answered with 201, until there are no more."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        self._requests = requests
        self._parser = AnswerParser()
        self.answered = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def begin(self) -> None:
        request = next(self._requests, None)
        if request is not None:
            self._transport.write(request)
            return
        self.done.set_result(None)
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        try:
            parser.feed(data)
        except BadAnswer as error:
            self._fail(Wrong(str(error)))
            return
        if not parser.complete:
            return
        if parser.status != 201 or not parser.keep_alive:
            self._fail(Wrong(f"a creation was answered with {parser.status}: {b''.join(parser.pieces)[:500]!r}"))
            return
        self.answered += 1
        self._parser = AnswerParser()
        self.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or Wrong("the server closed a connection in the middle of the creations"))

    def _fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self._transport.abort()


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str
    resource_version: str


class _Object(msgspec.Struct, gc=False):
    kind: str
    metadata: _Meta


class _Event(msgspec.Struct, gc=False):
    type: str
    object: _Object


_events = msgspec.json.Decoder(_Event).decode_lines


class Watching(asyncio.Protocol):
    """One connection of a watcher that must see each of the pods created once, and changed only after that.

    Versions may only grow.
    """

    def __init__(self, seen: set[str], wanted: int, last: int) -> None:
        self.seen = seen
        """Names of pods so far; carried over when a watch is opened anew."""
        self.last = last
        """The latest resourceVersion."""
        self.changes = 0
        """Of pods that were seen already, as controllers make them."""
        self._wanted = wanted
        self._parser = AnswerParser()
        self._rest = b""
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        """Done when all pods were seen or the server ended the watch; failed when it showed what it should not."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def begin(self, request: bytes) -> None:
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        try:
            parser.feed(data)
            if parser.status and not self.begun.done():
                self.begun.set_result(None)
            if parser.pieces and parser.status == 200:
                self._see(b"".join((self._rest, *parser.pieces)))
                parser.pieces.clear()
            if parser.complete:
                self._end(None if parser.status == 200 else Wrong(f"a watch was answered with {parser.status}"))
        except (BadAnswer, Wrong, msgspec.MsgspecError) as error:
            self._end(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)

    def close(self) -> None:
        self._transport.abort()

    def _see(self, data: bytes) -> None:
        end = data.rfind(b"\n") + 1
        self._rest = data[end:]
        seen, last = self.seen, self.last
        for event in _events(data[:end]):
            shown = event.object
            name, version = shown.metadata.name, int(shown.metadata.resource_version)
            if event.type != ("MODIFIED" if name in seen else "ADDED") or shown.kind != "Pod" or version <= last:
                raise Wrong(f"a watcher at version {last} was sent {event}, having seen {len(seen)} pods")
            if event.type == "MODIFIED":
                self.changes += 1
            seen.add(name)
            last = version
        self.last = last
        if len(seen) >= self._wanted:
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        if not self.begun.done():
            self.begun.set_result(None)
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)
