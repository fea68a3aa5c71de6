"""The HTTPS server of a webhook: one path, certificates that change without a restart, and an end that closes all.

API servers keep their connections open; a listener that only stopped accepting would go on answering (spot P1).
"""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import structlog

from situate.objects.messages import Request, Response
from situate.runtime.serving.certificates.renewal_schedule import Generation
from situate.runtime.serving.listener import CannotServe, Limits, Listener

LARGEST: Final = 16 * 2**20
"""Bytes of a review: objects have at most 3 MiB, which escapes may multiply."""
_LIMITS: Final = Limits(silence_s=120.0, idle_s=600.0)
"""Limits above those of API servers, which keep an idle connection for 90 s, also one that they never used.

The API server must be the one that closes it. A request on a connection that this process closes at that moment fails,
and the API server does not retry.
"""
_RETRY_S: Final = 1.0
_JSON: Final = {"content-type": "application/json"}
_TEXT: Final = {"content-type": "text/plain; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class Reply:
    """The HTTP answer to a review."""

    status: int
    body: bytes


AnswerReview: TypeAlias = Callable[[bytes], Awaitable[Reply]]
"""Takes the body of a review and returns the answer; never raises."""


class WebhookEndpoint(Protocol):
    """The interface of `Webhook` that the leader uses."""

    @property
    def listening(self) -> bool: ...

    def serve_with(self, generation: Generation) -> None: ...

    async def run(self) -> None: ...

    async def wait_listening(self) -> None: ...

    async def drain(self, within_s: float) -> None: ...


class Webhook:
    """The server, whose `run` is a task of the leader, until cancelled; then every connection is closed."""

    def __init__(self, address: str, answer: AnswerReview, *, path: str, setting: str, largest: int = LARGEST) -> None:
        """`address` is `host:port`, without host for every address; `setting` is its name in the configuration.

        `largest` bounds the bytes of a review.
        """
        self._answer = answer
        self._path = path
        self._largest = largest
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.set_alpn_protocols(["http/1.1"])
        self._certified = asyncio.Event()
        self._listener = Listener(
            "webhook",
            address,
            self._context,
            self._answer_request,
            setting=setting,
            most_body=lambda asked: largest + 1 if asked == path else 0,
            limits=_LIMITS,
            abrupt=True,
        )
        self._log = structlog.get_logger()

    def serve_with(self, generation: Generation) -> None:
        """Use this certificate for new connections; existing ones go on."""
        load_generation(self._context, generation)
        self._certified.set()

    async def run(self) -> None:
        """Wait for a certificate, then serve until cancelled."""
        await self._certified.wait()
        try:
            await self._listen()
        finally:
            self._certified.clear()  # the certificate may have expired by the next term

    async def _listen(self) -> None:
        """Listen; retry while a process that led before still holds the port."""
        told = ""
        while True:
            try:
                await self._listener.run()
            except CannotServe as problem:
                if str(problem) != told:
                    told = str(problem)
                    self._log.warning("webhook cannot listen, retrying", error=told)
                await asyncio.sleep(_RETRY_S)

    @property
    def port(self) -> int:
        """The port listened on, also if the address requested any (`:0`); 0 before that."""
        return self._listener.port

    @property
    def listening(self) -> bool:
        return self._listener.listening

    async def wait_listening(self) -> None:
        """Wait until requests are answered."""
        await self._listener.wait_listening()

    async def drain(self, within_s: float) -> None:
        """Finish requests before an orderly end, as `Listener.drain` does."""
        await self._listener.drain(within_s)

    async def _answer_request(self, request: Request, _: str) -> Response:
        if request.path != self._path:
            return Response(404, b"this server answers reviews only at " + self._path.encode(), _TEXT)
        if request.method != "POST":
            return Response(405, b"send reviews with the method POST", {**_TEXT, "allow": "POST"})
        if len(request.body) > self._largest:
            return Response(
                413, f"the review has more than {self._largest} bytes, the largest size allowed".encode(), _TEXT
            )
        reply = await self._answer(request.body)
        return Response(reply.status, reply.body, _JSON if reply.status == 200 else _TEXT)


def load_generation(context: ssl.SSLContext, generation: Generation) -> None:
    """Load a certificate through a file with mode 0600, because Python reads certificates from files only."""
    handle, path = tempfile.mkstemp(prefix="situate-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(generation.certificate.rstrip() + b"\n" + generation.key)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)
