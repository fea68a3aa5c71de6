"""A client as everybody has it, whose process says what it is refused, for tests to read in its log."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime

from situate.kube.client import Client
from situate.kube.login.connection import Connection
from situate.kube.login.credentials import Credentials
from situate.kube.retry.retries import Retries
from situate.kube.transport.http import HttpTransport
from situate.kube.transport.protocol import Stream, Transport
from situate.objects.messages import Request, Response

REFUSED = "refused: "
"""Begins the line of each answer 403."""


class Hearing:
    """The transport; whoever wraps it further sees the same."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        answer = await self._transport.send(request, timeout_s=timeout_s)
        _tell(request, answer.status, answer.body.decode(errors="replace"))
        return answer

    def stream(self, request: Request, *, timeout_s: float = 30.0) -> AbstractAsyncContextManager[Stream]:
        return self._stream(request, timeout_s)

    @asynccontextmanager
    async def _stream(self, request: Request, timeout_s: float) -> AsyncIterator[Stream]:
        async with self._transport.stream(request, timeout_s=timeout_s) as stream:
            _tell(request, stream.status, "a watch")
            yield stream

    async def close(self) -> None:
        await self._transport.close()


def transport_of(connection: Connection) -> Hearing:
    loop = asyncio.get_running_loop()
    credentials = Credentials(connection, monotonic=loop.time, now=lambda: datetime.now(UTC))
    return Hearing(HttpTransport(connection, credentials))


def hearing(connection: Connection) -> Client:
    """In the event loop where it is called."""
    return client_of(transport_of(connection))


def client_of(transport: Transport) -> Client:
    return Client(transport, retries=Retries(random.Random()))


def _tell(request: Request, status: int, said: str) -> None:
    if status == 403:
        print(f"{REFUSED}{request.method} {request.path}: {said}", flush=True)
