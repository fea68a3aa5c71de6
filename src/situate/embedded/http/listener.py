"""Listen for clients, and close their connections in an orderly way."""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import suppress
from email.utils import formatdate
from typing import Final

from situate.embedded.http.connection import Connection, RequestHandler

_BACKLOG: Final = 512


class HttpServer:
    """One listening address. The clock is the system's: dates and deadlines are wall time."""

    def __init__(self, answering: RequestHandler) -> None:
        self._handler = answering
        self._connections: set[Connection] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._server: asyncio.Server | None = None
        self._second = 0
        self._line = b""

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None) -> tuple[str, int]:
        """Listen, and return the actual address. Raises `OSError` if that fails."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._new_connection, host, port, ssl=tls, backlog=_BACKLOG)
        shown: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return shown

    async def stop(self, drain_s: float) -> None:
        """Accept no more clients. Current requests get `drain_s` seconds to finish; then their connections are cut."""
        if self._server is None:
            return
        self._server.close()
        for connection in tuple(self._connections):
            connection.finish()
        with suppress(TimeoutError):
            async with asyncio.timeout(drain_s):
                await self._empty.wait()
        for connection in tuple(self._connections):
            connection.abort()
        await self._server.wait_closed()
        self._server = None

    def add_connection(self, connection: Connection) -> None:
        """Add the connection of a new client."""
        self._connections.add(connection)
        self._empty.clear()

    def remove_connection(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    def date_header(self) -> bytes:
        """Return the header line with the time, formatted once a second."""
        now = int(time.time())
        if now != self._second:
            self._second = now
            self._line = b"date: %b\r\n" % formatdate(now, usegmt=True).encode()
        return self._line

    def _new_connection(self) -> Connection:
        return Connection(self._handler, self, time.time)
