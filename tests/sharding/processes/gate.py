"""A way to a server that can be held: what is under way then arrives when it is let go, however late that is."""

from __future__ import annotations

import asyncio
import contextlib
import threading


class Gate:
    """Forwards connections from a port of its own, on an event loop of its own."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self.held = 0
        """Bytes that wait to get through to the server."""
        self._server_port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gate", daemon=True)
        self._open: asyncio.Event
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Gate:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def hold(self) -> None:
        self._loop.call_soon_threadsafe(self._open.clear)

    def let_go(self) -> None:
        self._loop.call_soon_threadsafe(self._open.set)

    async def _listen(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._server_port)
        for task in (
            self._loop.create_task(self._forward(reader, back, gated=True)),
            self._loop.create_task(self._forward(there, writer, gated=False)),
        ):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, gated: bool) -> None:
        with contextlib.suppress(ConnectionError):
            try:
                while data := await reader.read(65536):
                    if gated and not self._open.is_set():
                        self.held += len(data)
                        await self._open.wait()
                    writer.write(data)
                    await writer.drain()
            finally:
                writer.close()
