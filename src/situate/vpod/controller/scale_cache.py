"""The cache of scales before a client, whose answers may be plain or awaitable. What it remembers is `scale_cache`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from situate.vpod.model.vpod import Scale, ScaleClient
from situate.vpod.scaling.scale_cache import ScaleCacheConfig, ScaleEntries


class ScaleCache:
    """Reads and writes scales in one namespace; what fails is not remembered, and leaves what is.

    With a client whose answers are awaitable, the answers here are, and readers that miss the same name at the same
    time share one read. With a plain client the answers are plain.
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
        """From the cache while it is fresh; else the server's object, with its resourceVersion."""
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
        reading.add_done_callback(_retrieved)
        # one reader that gives up must not take the answer from the others
        return asyncio.shield(reading)

    def update_scale(
        self, name: str, scale: Scale, options: Mapping[str, str] | None = None
    ) -> Scale | Awaitable[Scale]:
        """Writes through and remembers the server's answer; a failure leaves what is remembered."""
        answer = self._client.update_scale(name, scale, options)
        if isinstance(answer, Scale):
            self._entries.put(answer)
            return answer
        return self._write(answer)

    def observe(self, scale: Scale) -> None:
        """A watch shows this scale: it replaces what is remembered."""
        self._entries.put(scale)

    def reset(self) -> None:
        """Forgets everything; a promotion begins with this."""
        self._resets += 1
        self._entries.reset()

    async def _read(self, name: str, answer: Awaitable[Scale], resets: int) -> Scale:
        try:
            scale = await answer
        finally:
            self._reading.pop(name, None)
        if resets == self._resets:  # what was read before a reset is not remembered after it
            self._entries.put(scale)
        return scale

    async def _write(self, answer: Awaitable[Scale]) -> Scale:
        scale = await answer
        self._entries.put(scale)
        return scale


def _retrieved(reading: asyncio.Future[Scale]) -> None:
    """A failure has been seen by whoever still waits; with nobody waiting it concerns nobody."""
    if not reading.cancelled():
        reading.exception()
