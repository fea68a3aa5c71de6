"""Periodic check of whether on-demand nodes could take the pods that a wave would displace.

The check covers every displaced pod, so it runs in small steps and only every few minutes. Rule: B24.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Final

import structlog

from situate.spot.capacity.free_capacity import PlanningCapacity
from situate.spot.capacity.headroom import WaveCapacity, displaced_pods, wave_capacity_in_steps
from situate.spot.controller.cooperative_steps import run_in_steps
from situate.spot.controller.metrics import MoveMetrics
from situate.spot.model.counts import Nodes
from situate.spot.nodes.interruptions import InterruptionHistory

EVERY_S: Final = 300.0
SOON_S: Final = 15.0
"""After the start of a term, because much changes at first."""


class HeadroomMonitor:
    """Periodic headroom check; `run` is a task of the leader."""

    def __init__(
        self,
        metrics: MoveMetrics,
        places: Callable[[Nodes], Generator[None, None, PlanningCapacity]],
        history: Callable[[], InterruptionHistory],
    ) -> None:
        """`metrics`: holds the latest decision; `places`: current free capacity, in steps; `history`: of waves."""
        self._metrics = metrics
        self._places = places
        self._history = history
        self._missing = 0
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Check periodically, and log missing capacity when the number changes."""
        await asyncio.sleep(SOON_S)
        while True:
            room = await self._wave_capacity()
            if room is not None:
                self._metrics.set_wave_capacity(room)
                if room.missing != self._missing and room.missing:
                    self._log.warning("too little on-demand capacity for the largest wave", pods=room.missing)
                self._missing = room.missing
            await asyncio.sleep(EVERY_S)

    async def _wave_capacity(self) -> WaveCapacity | None:
        last = self._metrics.last
        if last is None:
            return None
        nodes = last.view.cluster.nodes
        places = await run_in_steps(self._places(nodes))
        return await run_in_steps(
            wave_capacity_in_steps(displaced_pods(last.workloads, nodes, self._history().largest_wave), places)
        )
