"""An HTTP(S) server: one function answers every path, limits apply to all clients, and certificates may change.

A client that sends nothing, or sends slowly, is disconnected. Connections above the limit wait to be accepted; requests
above the limit are refused at once.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog

from situate.objects.messages import Request, Response

if TYPE_CHECKING:
    from aiohttp import web

AnswerRequest: TypeAlias = Callable[[Request, str], Awaitable[Response]]
"""Answers a request from a client address; never raises except when cancelled."""

_CERTIFICATE_CHECK_S: Final = 10.0
"""Time between two checks of the certificate's files; the kubelet replaces them together."""
_END_S: Final = 5.0
"""Time for answers in progress when the process is asked to stop."""
_ABRUPT_END_S: Final = 1.0
"""Time for answers whose connection is closed. aiohttp takes 0 for no limit."""
_FLUSH_S: Final = 0.1
"""Time for answers to leave the process, and for idle connections to be closed."""
_LINGER_S: Final = 1.0
"""Time to read the rest of an unused body: closing without reading it could overtake the answer."""
_BACKLOG: Final = 4096
"""Connections that wait in the kernel when many arrive at once; others get no answer and retry later."""
_ACCEPT_RETRY_S: Final = 0.1
"""Delay before the next attempt to accept, when the limit is reached or no file descriptor is free."""
_ACCEPT_BATCH: Final = 32
"""Connections accepted before the other tasks run."""
MOST_HANDSHAKES: Final = 64
"""TLS handshakes at a time. If thousands ran together, all would be so slow that none would finish in time."""
HANDSHAKE_TURN_S: Final = 0.1
"""How long a handshake holds its turn; a slower or silent one goes on while the next one starts."""
_OTHER_FILES: Final = 256
"""File descriptors left to the rest of the process."""
_TOO_MANY_REQUESTS: Final = Response(
    503, b"too many requests are in progress; try again in a second", {"content-type": "text/plain", "retry-after": "1"}
)
_REQUEST_TIMEOUT: Final = Response(408, b"the request did not arrive in time", {"content-type": "text/plain"})


class CannotServe(Exception):
    """The address or the certificate cannot be used; the message gives the next step."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM files, such as those of a mounted Secret of type `kubernetes.io/tls`."""

    chain: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Create a TLS context. Raises `CannotServe`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        self.load(context)
        return context

    def load(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self.chain, self.key)
        except (OSError, ssl.SSLError) as problem:
            raise CannotServe(
                f"certificate {self.chain} with key {self.key} cannot be used: "
                f"{problem.strerror or type(problem).__name__}; name a certificate chain and its key, both in PEM"
            ) from None

    def modification_times(self) -> tuple[float, ...]:
        """Return a value that changes when the files do; empty while they do not exist."""
        try:
            return tuple(each.stat().st_mtime for each in (self.chain, self.key))
        except OSError:
            return ()


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one port."""

    connections: int = 8192
    """Fewer if the process may not open as many files; other connections wait until one ends."""
    requests: int = 4096
    """Requests in progress at a time."""
    silence_s: float = 10.0
    """How long a connection may take to send a whole request, its body, or before that its TLS handshake."""
    idle_s: float = 75.0
    """How long a connection may be idle between two requests."""


class Listener:
    """A service for the manager: `run` until it is cancelled."""

    def __init__(
        self,
        name: str,
        address: str,
        certificate: Certificate | ssl.SSLContext | None,
        answer: AnswerRequest,
        *,
        setting: str = "--address",
        most_body: Callable[[str], int] = lambda _: 0,
        limits: Limits = Limits(),
        abrupt: bool = False,
    ) -> None:
        """Take the address, the certificate and the function that answers. Raises `CannotServe`.

        `address` is `host:port`, without host for every address; `setting` is its name in the configuration.
        `certificate` None serves plain HTTP; the caller updates the certificate of a context. `most_body` returns the
        largest body to read, in bytes, for a path. With `abrupt`, no request is answered after the end begins.
        """
        self.name = name
        self._address = address
        self._setting = setting
        self._certificate = certificate if isinstance(certificate, Certificate) else None
        self._stamp = () if self._certificate is None else self._certificate.modification_times()
        self._context = certificate.context() if isinstance(certificate, Certificate) else certificate
        self._answer = answer
        self._most_body = most_body
        self._limits = limits
        self._abrupt = abrupt
        self._leaving = False
        self._open = asyncio.Event()
        self._silent: dict[web.RequestHandler, asyncio.TimerHandle] = {}
        self._coming: dict[asyncio.Future[None], socket.socket] = {}
        """Accepted sockets whose connection is not ready."""
        self._turns = asyncio.Semaphore(MOST_HANDSHAKES)
        self._requests_in_progress = 0
        self._idle = asyncio.Event()
        self.port = 0
        """The port listened on, also if the address requested any (`:0`); 0 before that."""
        self._log = structlog.get_logger().bind(service=name)

    async def run(self) -> None:
        """Serve until cancelled. Raises `CannotServe`."""
        from aiohttp import web  # 0.2 s of CPU time, saved in a process without a server

        handled = web.Server(
            self._handle,
            access_log=None,
            keepalive_timeout=self._limits.idle_s,
            lingering_time=_LINGER_S,
            auto_decompress=False,  # clients need not compress, and a kilobyte must not cause the work of a megabyte
            logger=defect_logger(),
        )
        runner = web.ServerRunner(handled, shutdown_timeout=_ABRUPT_END_S if self._abrupt else _END_S)
        await runner.setup()
        try:
            ports = await self._open_sockets()
            try:
                self.port = ports[0].getsockname()[1]
                self._open.set()
                self._log.info("server listens", address=self._address, port=self.port)
                async with asyncio.TaskGroup() as group:
                    most = _raise_file_limit(self._limits.connections)
                    for port in ports:
                        group.create_task(self._accept(port, handled, most))
                    group.create_task(self._renew_regularly())
                    try:
                        await asyncio.get_running_loop().create_future()
                    finally:
                        self._abort(handled)
            finally:
                self._open.clear()
                for port in ports:
                    port.close()
                self._log.info("server closes", address=self._address)
        finally:
            for coming in list(self._coming):
                coming.cancel()
            await asyncio.gather(*self._coming, return_exceptions=True)
            for timer in self._silent.values():
                timer.cancel()
            self._silent.clear()
            self._abort(handled)  # again: some connections became ready meanwhile
            await runner.cleanup()
            self._leaving = False

    def _abort(self, handled: web.Server) -> None:
        """Abort all connections if the end is abrupt, without an orderly end of TLS."""
        for connection in handled.connections if self._abrupt else ():
            if connection.transport is not None:
                connection.transport.abort()

    async def _open_sockets(self) -> list[socket.socket]:
        """Open the sockets, one for each address of the host. Raises `CannotServe`."""
        host, _, port = self._address.rpartition(":")
        try:
            server = await asyncio.get_running_loop().create_server(
                asyncio.Protocol, host.strip("[]") or None, int(port), start_serving=False
            )
            with closing(server):
                ports = [each.dup() for each in server.sockets]
            for each in ports:
                each.listen(_BACKLOG)
        except OSError as problem:
            raise CannotServe(
                f"cannot listen on {self._address}: {problem.strerror}; choose another {self._setting}"
            ) from problem
        return ports

    async def _accept(self, port: socket.socket, handled: web.Server, most: int) -> None:
        """Accept connections up to the limit; each starts TLS when it gets a turn."""
        loop = asyncio.get_running_loop()
        for taken in count(1):
            if len(handled.connections) + len(self._coming) >= most:
                await asyncio.sleep(_ACCEPT_RETRY_S)
                continue
            try:
                plain, _ = await loop.sock_accept(port)
            except OSError as problem:
                if problem.errno != errno.ECONNABORTED:  # else the client has closed it already
                    self._log.error("accept of a connection failed", error=problem.strerror)
                    await asyncio.sleep(_ACCEPT_RETRY_S)
                continue
            coming = asyncio.ensure_future(self._start_connection(plain, handled))
            self._coming[coming] = plain
            coming.add_done_callback(self._finish_accept)
            if taken % _ACCEPT_BATCH == 0:
                await asyncio.sleep(0)  # accepting a connection that already waits does not yield to other tasks

    def _finish_accept(self, coming: asyncio.Future[None]) -> None:
        plain = self._coming.pop(coming)
        if coming.cancelled():
            plain.close()

    async def _start_connection(self, plain: socket.socket, handled: web.Server) -> None:
        """Turn a socket into a connection; it counts against the limit from the start."""
        async with _HandshakeTurn(self._turns):
            protocol = handled()
            self._start_timer(protocol)
            try:
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: protocol,
                    plain,
                    ssl=self._context,
                    ssl_handshake_timeout=None if self._context is None else self._limits.silence_s,
                )
            except OSError:  # of TLS, too: it closes the connection
                self._stop_timer(protocol)
                return
        if self._stop_timer(protocol):
            self._start_timer(
                protocol
            )  # again: with many connections at once, TLS may have taken all the time until now

    def _start_timer(self, protocol: web.RequestHandler) -> None:
        """Start the time limit for the first request of a connection."""
        loop = asyncio.get_running_loop()
        self._silent[protocol] = loop.call_later(self._limits.silence_s, self._abort_silent, protocol)

    def _stop_timer(self, protocol: web.RequestHandler) -> bool:
        """Stop the time limit; return whether it was running."""
        timer = self._silent.pop(protocol, None)
        if timer is not None:
            timer.cancel()
        return timer is not None

    async def _renew_regularly(self) -> None:
        while True:
            await asyncio.sleep(_CERTIFICATE_CHECK_S)
            self.reload_certificate()

    @property
    def listening(self) -> bool:
        """Whether requests are answered."""
        return self._open.is_set()

    async def wait_listening(self) -> None:
        await self._open.wait()

    async def drain(self, within_s: float) -> None:
        """Finish requests before an orderly end; each connection is closed after its answer.

        Requests that arrive meanwhile are answered, too. Later connections are refused, or reach another Pod.
        """
        self._leaving = True
        self._idle.clear()
        if self._requests_in_progress:
            try:
                async with asyncio.timeout(within_s):
                    await self._idle.wait()
            except TimeoutError:
                self._log.warning("requests dropped without an answer", dropped=self._requests_in_progress)
        await asyncio.sleep(_FLUSH_S)

    def reload_certificate(self) -> None:
        """Load the certificate for new connections if its files have changed; an invalid one changes nothing."""
        if self._certificate is None or self._context is None:
            return
        now = self._certificate.modification_times()
        if now in ((), self._stamp):
            return
        self._stamp = now
        try:
            self._certificate.load(self._context)
        except CannotServe as problem:
            self._log.error("new certificate rejected", error=str(problem))
        else:
            self._log.info("new certificate loaded")

    def _abort_silent(self, protocol: web.RequestHandler) -> None:
        del self._silent[protocol]
        if protocol.transport is not None:
            protocol.transport.abort()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        from aiohttp import web

        self._stop_timer(request.protocol)
        if self._requests_in_progress >= self._limits.requests:
            answer, whole = _TOO_MANY_REQUESTS, False
        else:
            self._requests_in_progress += 1
            try:
                answer, whole = await self._read_and_answer(request)
            finally:
                self._requests_in_progress -= 1
                if not self._requests_in_progress:
                    self._idle.set()
        response = web.Response(status=answer.status, body=answer.body, headers=dict(answer.headers))
        if self._leaving or not whole:
            response.force_close()  # the rest of its body is not read
        return response

    async def _read_and_answer(self, request: web.BaseRequest) -> tuple[Response, bool]:
        """Answer a request; also return whether all of it was read."""
        most = self._most_body(request.path)
        body = bytearray()
        if most and request.body_exists:
            try:
                async with asyncio.timeout(self._limits.silence_s):
                    while len(body) < most and (piece := await request.content.read(most - len(body))):
                        body += piece
            except TimeoutError:
                return _REQUEST_TIMEOUT, False
        headers = {name.lower(): _valid_text(", ".join(request.headers.getall(name))) for name in request.headers}
        asked = Request(request.method, request.path, tuple(request.query.items()), headers, bytes(body))
        answer = await self._answer(asked, request.remote or "")
        return answer, not request.body_exists or request.content.at_eof()


class _HandshakeTurn:
    """The turn of a starting connection, which ends after `HANDSHAKE_TURN_S` even if the connection is not ready."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns = turns
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        await self._turns.acquire()
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_TURN_S, self._end)

    async def __aexit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._turns.release()


def defect_logger() -> logging.Logger:
    """Return aiohttp's logger without tracebacks for requests that are no HTTP.

    Such requests get status 400, and any client may send thousands of them.
    """
    log = logging.getLogger("aiohttp.server.listener")
    log.addFilter(_is_defect)
    return log


def _is_defect(record: logging.LogRecord) -> bool:
    from aiohttp.http_exceptions import HttpProcessingError

    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


def _raise_file_limit(wanted: int) -> int:
    """Raise the limit of open files as far as allowed; return the number of connections that fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - _OTHER_FILES))


def _valid_text(header: str) -> str:
    """Replace bytes that are not UTF-8, which could not be encoded again."""
    return header.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
