"""Keeps connections to one server for the next call, so that most calls cost no handshake."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from situate.kube.transport.dial import Target, dial
from situate.kube.transport.http_connection import HttpConnection

_IDLE_S: Final = 30.0
"""Below the idle time-outs of API servers and load balancers, so that it is mostly we who close an idle connection."""


class Connections:
    """Connections made with one TLS set-up; calls beyond the limit wait their turn."""

    def __init__(self, target: Target, context: ssl.SSLContext | None, limit: int) -> None:
        self._target = target
        self._context = context
        self._slots = asyncio.Semaphore(limit)
        self._idle: list[HttpConnection] = []
        self._lent: set[HttpConnection] = set()
        self._watches: set[HttpConnection] = set()
        self._retired = False
        self._loop = asyncio.get_running_loop()

    async def borrow(self) -> HttpConnection:
        """A connection for one call, to be given back; raises what dialing raises."""
        await self._slots.acquire()
        oldest_s = self._loop.time() - _IDLE_S
        while self._idle:
            # The last one used is the least likely to have been closed by the server.
            connection = self._idle.pop()
            if connection.reusable and connection.idle_since_s > oldest_s:
                self._lent.add(connection)
                return connection
            connection.close()
        try:
            connection = await dial(self._target, self._context)
        except BaseException:
            self._slots.release()
            raise
        self._lent.add(connection)
        return connection

    def give_back(self, connection: HttpConnection) -> None:
        """After the call, however it went."""
        self._slots.release()
        self._lent.discard(connection)
        if connection.reusable and not self._retired:
            connection.idle_since_s = self._loop.time()
            self._idle.append(connection)
        else:
            connection.close()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[HttpConnection]:
        """A connection of its own, closed afterwards; not counted against the limit."""
        connection = await dial(self._target, self._context)
        self._watches.add(connection)
        try:
            yield connection
        finally:
            self._watches.discard(connection)
            connection.close()

    def retire(self) -> None:
        """Ends idle connections and watches at once, and the others after their call."""
        self._retired = True
        for connection in (*self._idle, *self._watches):
            connection.close()
        self._idle.clear()

    def close(self) -> None:
        """Ends all connections at once; calls in flight fail."""
        self.retire()
        for connection in tuple(self._lent):
            connection.close()
