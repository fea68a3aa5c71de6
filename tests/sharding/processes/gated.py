"""A supervisor whose work goes by another port than its elections: `WORK_PORT=… python -m …gated`, as `supervised`.

It says each write of an object when it leaves, and what was answered, also to a write that it has given up meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from urllib.parse import urlsplit

from situate.kube.client import Client
from situate.kube.login.connection import Connection
from situate.kube.transport.protocol import Stream, Transport
from situate.objects.messages import Request, Response
from situate.testing.sharding.world.reports import REPORTS
from tests.sharding.processes import supervised
from tests.sharding.processes.hearing import client_of, hearing, transport_of

LEAVES, ANSWERED = "leaves: ", "answered: "


class Told:
    """Says what is written."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        if request.method != "PATCH" or f"/{REPORTS.plural}/" not in request.path:
            return await self._transport.send(request, timeout_s=timeout_s)
        return await asyncio.shield(self._written(request, timeout_s))

    async def _written(self, request: Request, timeout_s: float) -> Response:
        print(f"{LEAVES}{request.path}", flush=True)
        answer = await self._transport.send(request, timeout_s=timeout_s)
        print(f"{ANSWERED}{answer.status} {request.path}", flush=True)
        return answer

    def stream(self, request: Request, *, timeout_s: float = 30.0) -> AbstractAsyncContextManager[Stream]:
        return self._transport.stream(request, timeout_s=timeout_s)

    async def close(self) -> None:
        await self._transport.close()


async def main(*arguments: str) -> None:
    made: list[Client] = []

    def connected(connection: Connection) -> Client:
        """The first one is for the work, the second one for elections."""
        if made:
            return hearing(connection)
        port = urlsplit(connection.server).port
        gated = connection.server.replace(f":{port}", f":{os.environ['WORK_PORT']}")
        made.append(client_of(Told(transport_of(replace(connection, server=gated)))))
        return made[0]

    await supervised.main(*arguments, connected=connected)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
