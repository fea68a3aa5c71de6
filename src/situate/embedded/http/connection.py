"""One client's connection, which answers requests one after the other, at once if they need not wait.

Most answers of an API server need no waiting, so most requests need no task. They are answered in the call that
received their last byte. The answers to pipelined requests leave in one write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeAlias, cast
from urllib.parse import parse_qsl, unquote

from situate.cluster.storage.watch import Watch
from situate.embedded.http.http1 import BadRequest, IncomingRequest, RequestParser, head_bytes
from situate.embedded.http.watch_stream import WatchStream
from situate.objects.messages import Request, Response

Outcome: TypeAlias = Response | Watch | None
"""None: the connection ends without an answer."""

_MAX_READ_AHEAD_BYTES: Final = 1 << 20
"""Bytes of later requests to read while an earlier one is being answered."""
_MAX_WRITE_BYTES: Final = 1 << 16
"""Approximate number of bytes of answers in one write."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class RequestHandler(Protocol):
    """Handler of requests."""

    def answer(self, request: Request) -> Outcome | Coroutine[Any, Any, Outcome]:
        """Answer at once, or return a coroutine if the answer must wait. Raises no exception."""
        ...

    def too_large_response(self) -> Response:
        """Return the answer to a request with a body larger than `MAX_BODY_BYTES`."""
        ...

    def malformed_response(self, problem: BadRequest) -> Response:
        """Return the answer to bytes that are not HTTP."""
        ...


class ConnectionAcceptor(Protocol):
    """Acceptor of connections."""

    def add_connection(self, connection: Connection) -> None: ...

    def remove_connection(self, connection: Connection) -> None: ...

    def date_header(self) -> bytes:
        """Return the header line with the time."""
        ...


class Connection(asyncio.Protocol):
    """Protocol of one connection. It lives as long as the connection."""

    def __init__(self, answering: RequestHandler, listening: ConnectionAcceptor, clock: Callable[[], float]) -> None:
        self._handler = answering
        self._acceptor = listening
        self._clock = clock
        self._parser = RequestParser()
        self._current: IncomingRequest | None = None
        """The request that is being answered over several turns of the loop."""
        self._task: asyncio.Task[None] | None = None
        self._stream: WatchStream | None = None
        self._writable = True
        self._reading = True
        self._last = False
        """True if no further request is answered, because the client or the server ends the connection."""

    @property
    def busy(self) -> bool:
        """True while a request is being answered."""
        return self._current is not None

    def finish(self) -> None:
        """End the connection after the answer to the current request."""
        self._last = True
        if not self.busy:
            self._transport.close()

    def abort(self) -> None:
        """End the connection now."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._acceptor.add_connection(self)

    def data_received(self, data: bytes) -> None:
        if self._last:
            return
        self._parser.feed(data)
        if not self.busy:
            self._answer_all()
        elif self._parser.buffered_bytes > _MAX_READ_AHEAD_BYTES and self._reading:
            self._reading = False
            self._transport.pause_reading()

    def connection_lost(self, _: Exception | None) -> None:
        self._acceptor.remove_connection(self)
        self._last = True
        if self._task is not None:
            self._task.cancel()
        if self._stream is not None:
            self._stream.stop()

    def pause_writing(self) -> None:
        self._writable = False
        if self._stream is not None:
            self._stream.pause()

    def resume_writing(self) -> None:
        self._writable = True
        if self._stream is not None:
            self._stream.resume()
        elif not self.busy:
            self._answer_all()

    def _answer_all(self) -> None:
        """Answer every complete request, until one must wait."""
        answers: list[bytes] = []
        size = 0
        while self._current is None and self._writable and not self._last:
            try:
                incoming = self._parser.next_request()
            except BadRequest as problem:
                self._last = True
                answers.append(self._encode_answer(self._handler.malformed_response(problem), None))
                break
            if incoming is None:
                if self._parser.waits_to_send:
                    self._parser.waits_to_send = False
                    answers.append(_CONTINUE)
                break
            outcome: Outcome | Coroutine[Any, Any, Outcome]
            if incoming.body is None:
                outcome = self._handler.too_large_response()
            else:
                outcome = self._handler.answer(_to_request(incoming, incoming.body))
            if isinstance(outcome, Response):
                answers.append(self._encode_answer(outcome, incoming))
                self._last = not incoming.keep_alive
                size += len(outcome.body)
                if size > _MAX_WRITE_BYTES:
                    # The transport may find that the client does not read, and call `pause_writing`.
                    self._write(answers)
                    size = 0
            else:
                self._write(answers)
                self._current = incoming
                self._begin_deferred(outcome, incoming)
        self._write(answers)
        if self._last and not self.busy:
            self._transport.close()

    def _write(self, answers: list[bytes]) -> None:
        if answers:
            self._transport.write(answers[0] if len(answers) == 1 else b"".join(answers))
            answers.clear()

    def _begin_deferred(self, outcome: Watch | Coroutine[Any, Any, Outcome] | None, incoming: IncomingRequest) -> None:
        """Start an answer that takes several turns of the loop."""
        if outcome is None:
            self.abort()
        elif isinstance(outcome, Watch):
            self._begin_stream(outcome, incoming)
        else:
            self._task = asyncio.get_running_loop().create_task(self._finish_deferred(outcome, incoming))

    async def _finish_deferred(self, coming: Coroutine[Any, Any, Outcome], incoming: IncomingRequest) -> None:
        outcome = await coming
        self._task = None
        if isinstance(outcome, Response):
            self._transport.write(self._encode_answer(outcome, incoming))
            self._continue_reading(incoming)
        else:
            self._begin_deferred(outcome, incoming)

    def _begin_stream(self, watch: Watch, incoming: IncomingRequest) -> None:
        if incoming.method == "HEAD":
            watch.close()
            self._transport.write(
                head_bytes(watch.status, watch.headers, self._acceptor.date_header(), b"connection: close\r\n")
            )
            self._transport.close()
            return
        chunked = incoming.chunks_understood
        more = (b"transfer-encoding: chunked\r\n",) if chunked else (b"connection: close\r\n",)
        self._transport.write(head_bytes(watch.status, watch.headers, self._acceptor.date_header(), *more))

        def ended() -> None:
            self._stream = None
            self._last = self._last or not chunked
            self._continue_reading(incoming)

        self._stream = WatchStream(watch, self._transport, self._clock, ended, chunked=chunked)
        if not self._writable:
            self._stream.pause()
        self._stream.begin()

    def _continue_reading(self, incoming: IncomingRequest) -> None:
        """Continue with the requests that the client has sent meanwhile."""
        self._current = None
        self._last = self._last or not incoming.keep_alive
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()
        self._answer_all()

    def _encode_answer(self, answer: Response, incoming: IncomingRequest | None) -> bytes:
        more = [b"content-length: %d\r\n" % len(answer.body)]
        if incoming is None or not incoming.keep_alive or self._last:
            more.append(b"connection: close\r\n")
        elif not incoming.chunks_understood:
            more.append(b"connection: keep-alive\r\n")
        head = head_bytes(answer.status, answer.headers, self._acceptor.date_header(), *more)
        return head if incoming is not None and incoming.method == "HEAD" else head + answer.body


def _to_request(incoming: IncomingRequest, body: bytes) -> Request:
    path, _, query = incoming.target.partition("?")
    return Request(
        "GET" if incoming.method == "HEAD" else incoming.method,
        unquote(path) if "%" in path else path,
        tuple(parse_qsl(query, keep_blank_values=True)) if query else (),
        incoming.headers,
        body,
    )
