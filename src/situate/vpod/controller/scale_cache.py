"""The ScaleCache in front of a client whose answers are plain or awaitable.

`situate.vpod.scaling.scale_cache` holds the entries.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from situate.vpod.model.vpod import Scale, ScaleClient
from situate.vpod.scaling.scale_cache import ScaleCacheConfig, ScaleEntries


class ScaleCache:
    """A cache that reads and writes scales in one namespace. A failed call is not stored and changes no entry.

    With a client of awaitable answers, the answers of this class are awaitable, and concurrent misses for one name
    share one read. With a plain client the answers are plain.
    """

    def __init__(
        self,
        namespace: str,
        client: ScaleClient,
        config: ScaleCacheConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.namespace = namespace
        self.config = config if config is not None else ScaleCacheConfig()
        self._client = client
        self._entries = ScaleEntries(self.config, clock)
        self._reading: dict[str, asyncio.Future[Scale]] = {}
        self._resets = 0

    def get_scale(self, name: str, options: Mapping[str, str] | None = None) -> Scale | Awaitable[Scale]:
        """Return the cached scale while it is valid; otherwise the server's object, with its resourceVersion."""
        known = self._entries.get(name)
        if known is not None:
            return known
        if name in self._reading:
            return asyncio.shield(self._reading[name])
        answer = self._client.get_scale(name, options)
        if isinstance(answer, Scale):
            self._entries.put(answer)
            return answer
        reading = self._reading[name] = asyncio.ensure_future(self._read(name, answer, self._resets))
        reading.add_done_callback(_mark_retrieved)
        # a reader that is cancelled must not cancel the read for the other readers
        return asyncio.shield(reading)

    def update_scale(
        self, name: str, scale: Scale, options: Mapping[str, str] | None = None
    ) -> Scale | Awaitable[Scale]:
        """Write through and store the server's answer. A failure leaves the entry as it is."""
        answer = self._client.update_scale(name, scale, options)
        if isinstance(answer, Scale):
            self._entries.put(answer)
            return answer
        return self._write(answer)

    def observe(self, scale: Scale) -> None:
        """Replace the entry with a scale that a watch shows."""
        self._entries.put(scale)

    def reset(self) -> None:
        """Forget all entries. A promotion begins with this call."""
        self._resets += 1
        self._entries.reset()

    async def _read(self, name: str, answer: Awaitable[Scale], resets: int) -> Scale:
        try:
            scale = await answer
        finally:
            self._reading.pop(name, None)
        if resets == self._resets:  # do not store an answer that was requested before a reset
            self._entries.put(scale)
        return scale

    async def _write(self, answer: Awaitable[Scale]) -> Scale:
        scale = await answer
        self._entries.put(scale)
        return scale


def _mark_retrieved(reading: asyncio.Future[Scale]) -> None:
    """Mark the exception of a read as retrieved: the remaining readers have received it, if there are any."""
    if not reading.cancelled():
        reading.exception()
