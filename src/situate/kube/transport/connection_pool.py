"""Pools connections to one server, so that most calls need no handshake."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from situate.kube.transport.dial import Target, dial
from situate.kube.transport.http_connection import HttpConnection

_IDLE_S: Final = 30.0
"""Below the idle time-outs of API servers and load balancers, so that mostly the client closes an idle connection."""


class ConnectionPool:
    """Connections with one TLS configuration; calls beyond the limit wait in order."""

    def __init__(self, target: Target, context: ssl.SSLContext | None, limit: int) -> None:
        self._target = target
        self._context = context
        self._slots = asyncio.Semaphore(limit)
        self._idle: list[HttpConnection] = []
        self._lent: set[HttpConnection] = set()
        self._watches: set[HttpConnection] = set()
        self._retired = False
        self._loop = asyncio.get_running_loop()

    async def acquire(self) -> HttpConnection:
        """Return a connection for one call; the caller must give it back. Raises the errors of `dial`."""
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

    def release(self, connection: HttpConnection) -> None:
        """Return a connection after the call, successful or not."""
        self._slots.release()
        self._lent.discard(connection)
        if connection.reusable and not self._retired:
            connection.idle_since_s = self._loop.time()
            self._idle.append(connection)
        else:
            connection.close()

    @asynccontextmanager
    async def watch_connection(self) -> AsyncIterator[HttpConnection]:
        """Open a connection for one watch and close it afterwards; it does not count against the limit."""
        connection = await dial(self._target, self._context)
        self._watches.add(connection)
        try:
            yield connection
        finally:
            self._watches.discard(connection)
            connection.close()

    def retire(self) -> None:
        """Close idle connections and watches at once, and the others after their call."""
        self._retired = True
        for connection in (*self._idle, *self._watches):
            connection.close()
        self._idle.clear()

    def close(self) -> None:
        """Close all connections at once; calls in flight fail."""
        self.retire()
        for connection in tuple(self._lent):
            connection.close()
