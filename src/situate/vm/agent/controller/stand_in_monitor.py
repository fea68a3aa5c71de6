"""A monitor for machines without a guest: it is always connected, and decides by the load that is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from situate.vm.agent.decide.goal import SystemMetrics
from situate.vm.agent.decide.stand_in import downscale_result
from situate.vm.agent.protocol.monitor_protocol import DownscaleResult
from situate.vm.model.resource_amounts import Amounts


class StandInMonitor:
    """Of one machine."""

    def __init__(self, system: Callable[[], SystemMetrics | None], alive: Callable[[], None]) -> None:
        """`system`: what is known of its load now."""
        self._system = system
        self._alive = alive

    async def run(self, connected: Callable[[], None], wants_more: Callable[[], None]) -> None:  # noqa: ARG002 - it never does
        """Until it is cancelled."""
        connected()
        while True:
            self._alive()
            await asyncio.sleep(_PULSE_S)

    async def upscale(self, granted: Amounts) -> None:
        """There is nobody to tell."""

    async def downscale(self, target: Amounts) -> DownscaleResult:
        return downscale_result(target, self._system())


_PULSE_S = 5.0
