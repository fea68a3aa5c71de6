"""A monitor for VMs without a guest: always connected, and deciding by the reported load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from situate.vm.agent.decide.goal import SystemMetrics
from situate.vm.agent.decide.stand_in import downscale_result
from situate.vm.agent.protocol.monitor_protocol import DownscaleResult
from situate.vm.model.resource_amounts import Amounts


class StandInMonitor:
    """Monitor of one VM."""

    def __init__(self, system: Callable[[], SystemMetrics | None], alive: Callable[[], None]) -> None:
        """`system` returns the known load."""
        self._system = system
        self._alive = alive

    async def run(self, connected: Callable[[], None], wants_more: Callable[[], None]) -> None:  # noqa: ARG002 - it never does
        """Run until cancelled."""
        connected()
        while True:
            self._alive()
            await asyncio.sleep(_PULSE_S)

    async def upscale(self, granted: Amounts) -> None:
        """Do nothing: there is no guest to notify."""

    async def downscale(self, target: Amounts) -> DownscaleResult:
        return downscale_result(target, self._system())


_PULSE_S = 5.0
