"""Drives the engine in one term: advances its time, makes it decide, and passes decisions to the performer.

It yields to watches and writes every few milliseconds, and decides only as far ahead as calls can be sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from situate.framework.engine.decisions import Asked, Decision, PlacedRun
from situate.framework.engine.engine import Engine
from situate.scheduler.controller.action_writer import ExtenderClient
from situate.scheduler.controller.apply import Applier
from situate.scheduler.controller.engine_feed import EngineFeed
from situate.scheduler.metrics.metrics import SchedulerMetrics
from situate.scheduler.metrics.plugin_timing import PluginTimes

TICK_S: Final = 1.0
"""Back-off ends in windows of this length, so more frequent checks would find nothing."""
_TURN_S: Final = 0.005
"""How long it may decide before it yields to other tasks."""


class DecisionLoop:
    """The loop of one term. `stir` from anywhere on the event loop."""

    def __init__(
        self,
        engine: Engine,
        intake: EngineFeed,
        metrics: SchedulerMetrics,
        extending: ExtenderClient,
        times: PluginTimes,
        clock: Callable[[], float],
        stopwatch: Callable[[], float],
    ) -> None:
        """`clock` is the engine's time; `stopwatch` measures the duration of decisions."""
        self._engine = engine
        self._engine_feed = intake
        self._metrics = metrics
        self._extender_client = extending
        self._times = times
        self._clock = clock
        self._stopwatch = stopwatch
        self._change_noted = asyncio.Event()

    def stir(self) -> None:
        """Note a change that may allow a decision."""
        self._change_noted.set()

    async def run(self, performer: Applier) -> None:
        """Run until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            for refused in self._engine.tick(self._clock()):
                performer.apply(refused, self._clock(), 0.0)
            await self._decide(performer)
            tick = loop.call_later(TICK_S, self._change_noted.set)
            await self._change_noted.wait()
            tick.cancel()
            self._change_noted.clear()

    async def _decide(self, performer: Applier) -> None:
        """Make all decisions that are possible now."""
        turn = self._stopwatch()
        while (room := performer.free_placements) > 0:
            self._engine_feed.hand_over_catalog()
            began, start = self._clock(), self._stopwatch()
            self._times.begin()
            decisions: Sequence[Decision | PlacedRun | Asked] = self._engine.schedule_run(began, room)
            self._times.end()
            performer.apply_actions(self._engine.take_requested_actions())
            if not decisions:
                return
            seconds = (self._stopwatch() - start) / sum(_pod_count(each) for each in decisions)
            for decision in decisions:
                if isinstance(decision, Asked):
                    await self._ask_extenders(decision, performer, began, start)
                else:
                    self._apply_decision(decision, performer, began, seconds)
            if self._stopwatch() - turn > _TURN_S:
                await asyncio.sleep(0)
                turn = self._stopwatch()

    async def _ask_extenders(self, asked: Asked, performer: Applier, began: float, start: float) -> None:
        """Ask extenders until the cycle ends in a decision."""
        found: Decision | Asked | None = asked
        while isinstance(found, Asked):
            replies = await self._extender_client.ask(found.questions)
            self._times.begin()
            found = self._engine.resume(replies, self._clock())
            self._times.end()
        if found is not None:
            self._apply_decision(found, performer, began, self._stopwatch() - start)

    def _apply_decision(self, decision: Decision | PlacedRun, performer: Applier, began: float, seconds: float) -> None:
        for _ in range(_pod_count(decision)):
            self._metrics.record_decision(seconds)
        performer.apply(decision, began, seconds)


def _pod_count(decision: Decision | PlacedRun | Asked) -> int:
    return len(decision) if isinstance(decision, PlacedRun) else 1
