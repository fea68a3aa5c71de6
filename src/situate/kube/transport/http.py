"""The transport over HTTP/1.1: keep-alive connections, TLS, proxies, and a login that renews itself.

It knows nothing of Kubernetes objects. `situate.kube.retry.retries` decides on retries, with one exception. A request
refused with 401 was not carried out, so it is sent once more if there are newer credentials.
`docs/decisions/0003-client.md` says why this is not a library.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

import situate
from situate.kube.errors import Unreachable
from situate.kube.login.connection import Connection
from situate.kube.login.credentials import Credentials, Login, TlsMaterial
from situate.kube.transport.connection_pool import ConnectionPool
from situate.kube.transport.dial import BadName, ProxyRefused, ProxyUnreachable, target_of
from situate.kube.transport.http1 import AnswerParser, BadAnswer
from situate.kube.transport.http_connection import HttpConnection
from situate.kube.transport.tls import tls_context
from situate.kube.transport.unreachable import connect_error, lost_answer_error
from situate.objects.messages import Request, Response

_PLAIN_TEXT: Final = re.compile(r"[A-Za-z0-9/._~:@-]*", re.ASCII)
_CONNECT_ERRORS: Final = (OSError, BadName, ProxyRefused, ProxyUnreachable)
_SEND_ERRORS: Final = (OSError, TimeoutError, BadAnswer)


class HttpTransport:
    """One API server; usable in one event loop."""

    def __init__(self, connection: Connection, credentials: Credentials, *, max_connections: int = 64) -> None:
        """`max_connections` bounds the calls in flight; watches are not counted."""
        self._connection = connection
        self._target = target_of(connection)
        self._credentials = credentials
        self._max_connections = max_connections
        self._connections: ConnectionPool | None = None
        self._tls: TlsMaterial | None = None
        self._head_of: tuple[Login | None, str] = (None, "")
        self._closed = False

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        """Send a request and return the whole answer; `Unreachable` if none arrives in time."""
        login = self._credentials.cached_login or await self._credentials.login()
        answer = await self._send_as(login, request, timeout_s)
        if answer.status == 401 and await self._credentials.refresh(login):
            answer = await self._send_as(await self._credentials.login(), request, timeout_s)
        pieces = answer.pieces
        return Response(answer.status, pieces[0] if len(pieces) == 1 else b"".join(pieces), answer.headers)

    @asynccontextmanager
    async def stream(self, request: Request, *, timeout_s: float = 30.0) -> AsyncIterator[HttpStream]:
        """Open a watch; `timeout_s` bounds the time until the answer's head."""
        login = await self._credentials.login()
        async with self._open(login, request, timeout_s) as stream:
            if stream.status != 401 or not await self._credentials.refresh(login):
                yield stream
                return
        async with self._open(await self._credentials.login(), request, timeout_s) as stream:
            yield stream

    async def close(self) -> None:
        """Close every connection; further calls raise `Unreachable`."""
        self._closed = True
        if self._connections:
            self._connections.close()
            await asyncio.sleep(0)  # the loop closes the sockets in its next iteration

    async def _send_as(self, login: Login, request: Request, timeout_s: float) -> AnswerParser:
        message = self._message(login, request)
        connections = self._connections_for(login.tls)
        try:
            connection = await connections.acquire()
        except _CONNECT_ERRORS as error:
            raise connect_error(error, request, self._connection) from error
        try:
            return await connection.exchange(message, timeout_s)
        except _SEND_ERRORS as error:
            raise lost_answer_error(error, request, self._connection, timeout_s) from error
        finally:
            connections.release(connection)

    @asynccontextmanager
    async def _open(self, login: Login, request: Request, timeout_s: float) -> AsyncIterator[HttpStream]:
        message = self._message(login, request)
        watching = self._connections_for(login.tls).watch_connection()
        try:
            connection = await watching.__aenter__()
        except _CONNECT_ERRORS as error:
            raise connect_error(error, request, self._connection) from error
        try:
            try:
                answer = await connection.begin(message, timeout_s)
            except _SEND_ERRORS as error:
                raise lost_answer_error(error, request, self._connection, timeout_s) from error
            yield HttpStream(answer, connection, self._connection.server)
        finally:
            await watching.__aexit__(None, None, None)

    def _connections_for(self, tls: TlsMaterial) -> ConnectionPool:
        """Return the pool for these certificates; when they change, calls in flight finish on their old connections."""
        if self._closed:
            problem = f"cannot reach {self._connection.server}: this client is closed; create a new client"
            raise Unreachable(problem, outcome_unknown=False, retriable=False)
        connections = self._connections
        if connections is None or (tls is not self._tls and tls != self._tls):
            context = tls_context(self._connection, tls) if self._target.tls else None
            if connections:
                connections.retire()
            connections = self._connections = ConnectionPool(self._target, context, self._max_connections)
        self._tls = tls
        return connections

    def _message(self, login: Login, request: Request) -> bytes:
        """Build the bytes of a request. Answers are uncompressed: on a near network, gzip costs more than it saves."""
        path = request.path
        if not _PLAIN_TEXT.fullmatch(path):
            path = quote(path, safe="/:@!$&'()*+,;=~")
        if request.query:
            path += "?" + "&".join(f"{_quote(key)}={_quote(value)}" for key, value in request.query)
        known, base = self._head_of
        if known is not login:
            base = self._login_head(login)
            self._head_of = (login, base)
        own = "".join([f"{name}: {value}\r\n" for name, value in request.headers.items()])
        if own.count("\n") != len(request.headers) or own.count("\r") != len(request.headers):
            raise ValueError("a header contains a line break")
        head = (
            f"{request.method} {self._prefix}{path} HTTP/1.1\r\n{base}{own}Content-Length: {len(request.body)}\r\n\r\n"
        )
        return head.encode() + request.body

    @property
    def _prefix(self) -> str:
        """Prefix of each path: a proxy that reads plain HTTP needs the whole URL."""
        target = self._target
        if target.proxy and not target.tunnelled:
            return f"http://{target.authority}{target.base_path}"
        return target.base_path

    def _login_head(self, login: Login) -> str:
        headers = [("Host", self._target.authority), ("User-Agent", f"situate/{situate.__version__}"), *login.headers]
        proxy = self._target.proxy
        if proxy and proxy.authorization and not self._target.tunnelled:
            headers.append(("Proxy-Authorization", proxy.authorization))
        return "".join(f"{name}: {value}\r\n" for name, value in headers)


class HttpStream:
    """The answer to a watch."""

    def __init__(self, answer: AnswerParser, connection: HttpConnection, server: str) -> None:
        self._answer = answer
        self._connection = connection
        self._server = server

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        return self._answer.headers

    async def batches(self) -> AsyncIterator[Sequence[bytes]]:
        """Yield the body as it arrives; `Unreachable` if the connection breaks before its end."""
        try:
            async for pieces in self._connection.batches():
                yield pieces
        except _SEND_ERRORS as error:
            problem = f"lost the connection to {self._server} in the middle of an answer: {error}; watch again"
            raise Unreachable(problem, outcome_unknown=False) from error


def _quote(text: str) -> str:
    return text if _PLAIN_TEXT.fullmatch(text) else quote(text, safe="")
