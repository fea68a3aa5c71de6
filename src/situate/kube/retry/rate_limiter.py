"""The rate of calls: a token bucket, as client-go's flow control (util/flowcontrol throttle.go)."""

from __future__ import annotations

import asyncio


class RateLimiter:
    """`qps` calls a second on average, up to `burst` at once after a pause; waiting calls leave in order.

    It reads the running loop's clock, so it follows virtual time.
    """

    def __init__(self, qps: float, burst: int) -> None:
        if qps <= 0:
            raise ValueError(f"qps: found {qps}, allowed: more than 0")
        if burst < 1:
            raise ValueError(f"burst: found {burst}, allowed: 1 or more")
        self._interval_s = 1 / qps
        self._slack_s = (burst - 1) / qps
        self._next: float | None = None
        """When the call after the last one would be due at an even rate; None before the first."""

    async def wait(self) -> None:
        """Wait until this call may leave. A cancelled wait still uses its turn."""
        now = asyncio.get_running_loop().time()
        due = now - self._slack_s if self._next is None else max(self._next, now - self._slack_s)
        self._next = due + self._interval_s
        if due > now:
            await asyncio.sleep(due - now)
