"""How fast calls may leave: a token bucket, as client-go's flow control (util/flowcontrol throttle.go)."""

from __future__ import annotations

import asyncio


class Limiter:
    """`qps` calls a second on average, up to `burst` at once after a pause; waiting calls leave in order.

    It reads the running loop's clock, so it obeys virtual time.
    """

    def __init__(self, qps: float, burst: int) -> None:
        if qps <= 0:
            raise ValueError(f"qps is {qps}: it must be above 0")
        if burst < 1:
            raise ValueError(f"burst is {burst}: it must be 1 or more")
        self._interval_s = 1 / qps
        self._slack_s = (burst - 1) / qps
        self._next: float | None = None
        """When the call after the last one would be due if calls came evenly; None before the first."""

    async def wait(self) -> None:
        """Returns when this call may leave. A cancelled wait gives its turn away."""
        now = asyncio.get_running_loop().time()
        due = now - self._slack_s if self._next is None else max(self._next, now - self._slack_s)
        self._next = due + self._interval_s
        if due > now:
            await asyncio.sleep(due - now)
