"""Ports for programs that want to be told one and cannot be asked later which they got.

A port that was found free and let go may be another process's a moment later. One that is reserved is bound here and
not listened on: the system gives it to nobody who asks for any port, and a program that sets SO_REUSEADDR, as every Go
program and asyncio do, can listen on it by its number; it can also end and come back.
"""

from __future__ import annotations

import socket


class ReservedPort:
    """A port of 127.0.0.1 that is kept until `release`, and until then refuses connections unless somebody listens."""

    def __init__(self) -> None:
        self._holder: socket.socket | None = None
        self.number = 0
        self.reserve()

    def reserve(self) -> None:
        """Takes the port again that was released; raises `OSError` if it is somebody else's by now."""
        if self._holder is not None:
            return
        holder = socket.socket()
        try:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", self.number))
        except BaseException:
            holder.close()
            raise
        self.number = int(holder.getsockname()[1])
        self._holder = holder

    def release(self) -> None:
        """Repeating it is harmless."""
        if self._holder is not None:
            self._holder.close()
            self._holder = None

    def __enter__(self) -> ReservedPort:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
