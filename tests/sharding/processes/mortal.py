"""A process that is killed at its first call of the API, begun anew, killed at its second, and so on; then it lives.

`python -m tests.sharding.processes.mortal` with the arguments of `supervised`. Half of its lives end before the call
has left, half when it has been answered. Each life is a process of its own, forked from one that has only imported.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

from situate.kube.client import Client
from situate.kube.connection import Connection
from situate.kube.credentials import Credentials
from situate.kube.http import HttpTransport
from situate.kube.retries import Retries
from situate.kube.transport import Stream, Transport
from situate.objects.messages import Request, Response
from tests.sharding.processes import supervised

LIVES = 14
TOLD = "a life has ended"
"""What is printed for each."""


class Mortal:
    """Ends its process with SIGKILL at the call of this number, of all its clients."""

    calls = 0

    def __init__(self, transport: Transport, last: int, *, answered: bool) -> None:
        self._transport = transport
        self._last = last
        self._answered = answered

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        Mortal.calls += 1
        number = Mortal.calls
        if number == self._last and not self._answered:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await self._transport.send(request, timeout_s=timeout_s)
        if number == self._last:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    def stream(self, request: Request, *, timeout_s: float = 30.0) -> AbstractAsyncContextManager[Stream]:
        return self._transport.stream(request, timeout_s=timeout_s)

    async def close(self) -> None:
        await self._transport.close()


def life(number: int, kubeconfig: str, namespace: str, role: str, name: str, extra: str) -> None:
    """The life of this number, from 0."""

    def connected(connection: Connection) -> Client:
        loop = asyncio.get_running_loop()
        credentials = Credentials(connection, monotonic=loop.time, now=lambda: datetime.now(UTC))
        transport = HttpTransport(connection, credentials)
        mortal = Mortal(transport, last=1 + number // 2, answered=number % 2 == 1)
        return Client(mortal, retries=Retries(random.Random()))

    asyncio.run(supervised.main(kubeconfig, namespace, role, name, extra, connected=connected))


def main(kubeconfig: str, namespace: str, role: str, name: str, extra: str) -> None:
    for number in range(LIVES):
        child = os.fork()
        if child == 0:
            life(number, kubeconfig, namespace, role, name, extra)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"life {number} has ended by itself: {status}"
        print(f"{TOLD}: {number}", flush=True)
    asyncio.run(supervised.main(kubeconfig, namespace, role, name, extra))


if __name__ == "__main__":
    main(*sys.argv[1:])
