"""Write one watch to its client in batches: all events within a few milliseconds share a packet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from situate.cluster.storage.watch import Watch

_BATCH_S: Final = 0.002
"""Shortest interval between two writes of a busy watch. A quiet watch is written at once."""
_MIN_TICK_S: Final = 0.001


class WatchStream:
    """The body of the answer to a watch, from `begin` until the watch ends or the client disconnects."""

    def __init__(
        self,
        watch: Watch,
        transport: asyncio.Transport,
        clock: Callable[[], float],
        ended: Callable[[], None],
        *,
        chunked: bool,
    ) -> None:
        self._watch = watch
        self._transport = transport
        self._clock = clock
        self._on_end = ended
        """Called when the whole body has been written."""
        self._chunked = chunked
        self._loop = asyncio.get_running_loop()
        self._written = -_BATCH_S
        self._paused = False
        self._flushing: asyncio.Handle | None = None
        self._ticking: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start to write pending and later frames with the next turn of the loop."""
        self._watch.wake = self._wake
        self._tick()
        self._wake()

    def pause(self) -> None:
        """Stop writing because the client reads too slowly. Frames wait in the watch."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._wake()

    def stop(self) -> None:
        """Stop because the client disconnected or the watch is complete."""
        self._watch.wake = _ignore_wake
        self._watch.close()
        for handle in (self._flushing, self._ticking):
            if handle is not None:
                handle.cancel()

    def _wake(self) -> None:
        if self._flushing is not None or self._paused:
            return
        due = self._written + _BATCH_S
        if due <= self._loop.time():
            self._flushing = self._loop.call_soon(self._flush)
        else:
            self._flushing = self._loop.call_at(due, self._flush)

    def _flush(self) -> None:
        self._flushing = None
        watch = self._watch
        while not self._paused and (data := watch.take()):
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
            self._written = self._loop.time()
        if watch.closed and not watch.pending:
            if self._chunked:
                self._transport.write(b"0\r\n\r\n")
            self.stop()
            self._on_end()

    def _tick(self) -> None:
        now = self._clock()
        due = self._watch.tick(now)
        if not self._watch.closed:
            self._ticking = self._loop.call_later(max(due - now, _MIN_TICK_S), self._tick)


def _ignore_wake() -> None:
    """Do nothing, because no stream waits for the watch any more."""
