"""Decides again and again while this process leads, and has carried out what was decided.

Changes wake it, many at a time; time alone does as well, since pods that wait too long change nothing. What a decision
remembers is handed to admission, which goes by it for the next pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from typing import Final

import structlog

from situate.spot.configuration import SpotSettings
from situate.spot.controller.acting import Acting
from situate.spot.controller.around import Around
from situate.spot.controller.rooms import Rooms
from situate.spot.controller.telling import Telling
from situate.spot.decide import Decision, Situation, State, decide
from situate.spot.observed import Cluster, Memory
from situate.spot.prices import NO_PRICES, Prices

SOONEST_S: Final = 1.0
"""Between two decisions: changes come in droves."""
LATEST_S: Final = 15.0
"""Without any change."""
_NOT_KNOWN_S: Final = 1.0


class Moving:
    """`decision` is the last one; `prices` may be set at any time."""

    def __init__(
        self,
        cluster: Cluster,
        memories: MutableMapping[str, Memory],
        around: Around,
        rooms: Rooms,
        settings: Callable[[], SpotSettings],
        *,
        wall: Callable[[], float],
    ) -> None:
        """`memories`: those that admission goes by; they are kept current."""
        self.decision: Decision | None = None
        self.prices: Prices = NO_PRICES
        self._state = State()
        self._cluster = cluster
        self._memories = memories
        self._around = around
        self._rooms = rooms
        self._settings = settings
        self._wall = wall
        self._changed = asyncio.Event()
        self._log = structlog.get_logger()
        around.on_change(self.wake)

    def wake(self) -> None:
        """Something has changed."""
        self._changed.set()

    async def run(self, acting: Acting, telling: Telling) -> None:
        """A task of the leader. What was decided in an earlier term is forgotten, but for what admission goes by."""
        self._state = State()
        self.decision = None
        async with asyncio.TaskGroup() as group:
            while True:
                await self._everything_known()
                self._changed.clear()
                await self._around.look()
                situation = self._situation()
                decision = self.decision = self._decided(situation)
                telling.decided(decision)
                acting.begin(decision.actions, decision, situation, group)
                await self._rest(decision.requeue_after)

    def _situation(self) -> Situation:
        settings, cluster = self._settings(), self._cluster
        return Situation(
            cluster,
            self._rooms.room(cluster.nodes),
            settings.rules(),
            settings.limits(),
            self._around.surroundings(),
            self.prices,
        )

    def _decided(self, situation: Situation) -> Decision:
        decision = decide(replace(self._state, memories=self._memories), situation, self._wall())
        self._state = decision.state
        self._memories.clear()
        self._memories.update(decision.state.memories)
        return decision

    async def _everything_known(self) -> None:
        """Nothing is moved before all is known that may forbid it."""
        told = ""
        while (problem := self._around.not_known()) is not None:
            if problem != told:
                self._log.warning("nothing is moved yet", error=problem)
                told = problem
            await asyncio.sleep(_NOT_KNOWN_S)

    async def _rest(self, seconds: float | None) -> None:
        await asyncio.sleep(SOONEST_S)
        try:
            async with asyncio.timeout(max(0.0, min(LATEST_S, seconds or LATEST_S) - SOONEST_S)):
                await self._changed.wait()
        except TimeoutError:
            return
