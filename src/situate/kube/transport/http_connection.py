"""One HTTP/1.1 connection, which sends a request and reads its answer whole or as it arrives.

`situate.kube.transport.http` interprets the answer; `situate.kube.transport.dial` opens the connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import Final, cast

from situate.kube.transport.http1 import AnswerParser, BadAnswer

_READ_AHEAD: Final = 2**20
"""Bytes of an unread body at which reading pauses."""


class HttpConnection(asyncio.Protocol):
    """A connection that carries one exchange at a time.

    It closes if an exchange is aborted: the rest of its answer could be taken for the next one.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = AnswerParser()
        self._waiter: asyncio.Future[None] | None = None
        self._whole = False
        """Whether the waiter waits for the whole answer."""
        self._error: Exception | None = None
        self._paused = False
        self.open = False
        self.idle_since_s = 0.0
        """By the loop's clock."""

    async def exchange(self, request: bytes, timeout_s: float) -> AnswerParser:
        """Send a request and return the whole answer; raises `TimeoutError`, `OSError` or `BadAnswer`."""
        return await self._request(request, timeout_s, whole=True)

    async def begin(self, request: bytes, timeout_s: float, *, bodiless: bool = False) -> AnswerParser:
        """Send a request and return the answer once its head has arrived; `batches` yields the body."""
        return await self._request(request, timeout_s, whole=False, bodiless=bodiless)

    async def batches(self) -> AsyncIterator[Sequence[bytes]]:
        """Yield the body of an answer from `begin`, in the server's own chunks: joining them would copy each event."""
        parser = self._parser
        while True:
            if parser.pieces:
                pieces, parser.pieces = parser.pieces, []
                if self._paused and self._transport and self.open:
                    self._paused = False
                    self._transport.resume_reading()
                yield pieces
            elif self._error:
                raise self._error
            elif parser.complete:
                return
            else:
                self._waiter = self._loop.create_future()
                try:
                    await self._waiter
                finally:
                    self._waiter = None

    async def secure(self, context: ssl.SSLContext, server_name: str, timeout_s: float) -> None:
        """Start TLS after a proxy has opened a tunnel; raises `OSError`."""
        assert self._transport is not None
        if not self.open:  # the event loop would wait for a handshake that cannot begin
            raise ConnectionResetError("the proxy closed the tunnel at once")
        transport = await self._loop.start_tls(
            self._transport, self, context, server_hostname=server_name, ssl_handshake_timeout=timeout_s
        )
        self.connection_made(cast(asyncio.BaseTransport, transport))

    def close(self) -> None:
        self.open = False
        if self._transport:
            self._transport.abort()

    @property
    def reusable(self) -> bool:
        """Whether another exchange may follow."""
        return self.open and self._parser.keep_alive and self._error is None

    async def _request(self, request: bytes, timeout_s: float, *, whole: bool, bodiless: bool = False) -> AnswerParser:
        assert self._transport is not None
        parser = self._parser = AnswerParser(bodiless=bodiless)
        waiter = self._waiter = self._loop.create_future()
        self._whole = whole
        if self._error:
            raise self._error
        timer = self._loop.call_later(timeout_s, self._fail, TimeoutError())
        try:
            try:
                self._transport.write(request)
            except RuntimeError as error:  # uvloop raises it for a socket that it has closed meanwhile
                raise ConnectionResetError(str(error)) from error
            await waiter
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()
            self._waiter = None
            self._whole = False
        return parser

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.open = True

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        try:
            parser.feed(data)
        except BadAnswer as error:
            self._fail(error)
            return
        if parser.complete or (parser.status and not self._whole):
            self._wake()
        if self._whole or self._paused or not self.open or not self._transport:
            return
        if sum(map(len, parser.pieces)) > _READ_AHEAD:
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if exc is not None:
            self._fail(exc)
            return
        try:
            self._parser.end()
        except BadAnswer as error:
            self._fail(error)
        else:
            self._wake()

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        """Fail the current exchange and every later one."""
        if self._error is None:
            self._error = error
        if self._waiter and not self._waiter.done():
            self._waiter.set_exception(self._error)
        self.close()
