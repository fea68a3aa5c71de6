"""A wire between clients and a server of TCP that can be cut at a chosen moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress


def never(_: bytes) -> bool:
    return False


class Wire:
    """Passes bytes on, in the pieces in which they come."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self.port = 0
        self.cut: Callable[[bytes], bool] = never
        """Whether the connection is to end before the server gets this piece."""
        self.deaf: Callable[[bytes], bool] = never
        """Whether it is to end before the client gets the answer to this piece."""
        self.tasks: set[asyncio.Task[None]] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        back = asyncio.ensure_future(_passed(server_reader, writer))
        try:
            while piece := await reader.read(1 << 16):
                if self.cut(piece):
                    break
                if self.deaf(piece):
                    back.cancel()
                    with suppress(asyncio.CancelledError):
                        await back
                    server_writer.write(piece)
                    await server_reader.read(1 << 16)  # it has done what it was told
                    break
                server_writer.write(piece)
        except OSError:
            pass  # one of the two is gone, and so the other
        finally:
            back.cancel()
            server_writer.transport.abort()
            writer.transport.abort()


@asynccontextmanager
async def wire_to(port: int) -> AsyncIterator[Wire]:
    wire = Wire(port)
    server = await asyncio.start_server(wire.connected, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        for task in wire.tasks:
            task.cancel()
        await asyncio.gather(*wire.tasks, return_exceptions=True)


async def _passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(1 << 16):
            writer.write(piece)
