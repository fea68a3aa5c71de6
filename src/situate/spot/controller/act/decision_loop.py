"""Decision loop of the leader: decide repeatedly and hand over the actions.

Changes wake it, many of them at a time. Time alone also wakes it, because a pod that waits for too long causes no
change. A decision is made in steps on a copy of the cluster; pods are admitted between the steps. Admission uses the
memory of the decision for the next pods. Rule: F7.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, MutableMapping
from dataclasses import replace
from typing import Final

import structlog

from situate.spot.config.settings import SpotSettings
from situate.spot.controller.act.apply import Applier
from situate.spot.controller.act.attempt import Attempt, AttemptOutcome
from situate.spot.controller.act.conditions import ConditionWriter
from situate.spot.controller.act.notify import Notifier
from situate.spot.controller.cooperative_steps import run_in_steps
from situate.spot.controller.observe.constraints_watch import ConstraintInformers
from situate.spot.controller.observe.free_capacity import CapacitySource
from situate.spot.nodes.pool_stability import Pools
from situate.spot.nodes.prices import NO_PRICES, Prices
from situate.spot.rebalance.decide import ClusterView, Decision, State, decide_in_steps
from situate.spot.workloads.cluster_objects import Cluster, WorkloadMemory

SOONEST_S: Final = 1.0
"""Shortest time between two decisions, because changes come in bursts."""
END_SOONEST_S: Final = 0.1
"""Shortest time if a pod's deadline has come, so that pods that end soon after each other are handled at once."""
LATEST_S: Final = 15.0
"""Longest time between two decisions without a change."""
_READINESS_RETRY_S: Final = 1.0


class DecisionLoop:
    """Decision loop; `decision` is the latest decision."""

    def __init__(
        self,
        cluster: Callable[[], Cluster],
        memories: MutableMapping[str, WorkloadMemory],
        around: ConstraintInformers,
        rooms: CapacitySource,
        settings: Callable[[], SpotSettings],
        *,
        wall: Callable[[], float],
        decided: Callable[[Decision, ClusterView], Generator[None, None, None]],
    ) -> None:
        """`cluster`: returns a copy that does not change. `memories`: used by admission and updated here.

        `notify_decision` processes each decision in steps.
        """
        self.decision: Decision | None = None
        self._prices: Prices = NO_PRICES
        self._on_decision = decided
        self._initial_state = self._state = State()
        self._cluster = cluster
        self._memories = memories
        self._constraints = around
        self._capacity = rooms
        self._settings = settings
        self._wall = wall
        self._wake_event = asyncio.Event()
        self._log = structlog.get_logger()
        around.on_change(self.wake)

    def wake(self) -> None:
        """Wake the loop after a change."""
        self._wake_event.set()

    def set_prices(self, prices: Prices) -> None:
        """Use these prices from now on."""
        self._prices = prices
        self.wake()

    async def run(self, acting: Applier, telling: Notifier, conditions: ConditionWriter, pools: Pools) -> None:
        """Run as a task of the leader. Starts with the memory that admission uses and with `pools`, and nothing else of
        an earlier term."""
        self._initial_state = State(pools=pools)
        self._state = self._initial_state
        self.decision = None
        async with asyncio.TaskGroup() as group:
            while True:
                await self._wait_until_known()
                await run_in_steps(self._capacity.add_pods_in_steps())
                self._wake_event.clear()
                await self._constraints.read_lease_holders()
                situation, begun = self._cluster_view(), asyncio.get_running_loop().time()
                decision = await self._decide(situation)
                if decision is None:
                    await asyncio.sleep(LATEST_S)
                    continue
                self.decision = decision
                telling.notify_decision(decision)
                acting.apply(decision.actions, decision, situation, group)
                group.create_task(conditions.write(decision), name="conditions of pods")
                await run_in_steps(self._on_decision(decision, situation))
                await self._wait_for_change(begun, decision.requeue_after)

    @property
    def recent_policy_moves(self) -> int:
        """Policy moves that count against the budget of the hour."""
        return len(self._state.moved_at)

    def record_attempt(self, attempt: Attempt) -> None:
        """Remove a move that was not made from the budget of the hour; it is tried again later."""
        memory = self._memories.get(attempt.action.owner)
        if memory is None or memory.moved != attempt.action.uid or attempt.outcome is AttemptOutcome.DONE:
            return
        counted = list(self._state.moved_at)
        if memory.moved_at in counted:
            counted.remove(memory.moved_at)
            self._state = replace(self._state, moved_at=tuple(counted))

    def _cluster_view(self) -> ClusterView:
        settings, cluster = self._settings(), self._cluster()
        return ClusterView(
            cluster,
            self._capacity.capacity_for_decision(cluster.nodes),
            settings.rules(),
            settings.limits(),
            self._constraints.current_constraints(),
            self._prices,
        )

    async def _decide(self, situation: ClusterView) -> Decision | None:
        """Decide; None after an unexpected exception: nothing is moved then, and admission keeps its leader."""
        before = dict(self._memories)
        try:
            decision = await run_in_steps(
                decide_in_steps(replace(self._state, memories=before), situation, self._wall())
            )
        except Exception as defect:
            self._log.error("unexpected error of a decision, retrying", exc_info=defect)
            self._state = self._initial_state
            return None
        self._state = decision.state
        self._store_memories(before, decision.state.memories)
        return decision

    def _store_memories(self, before: Mapping[str, WorkloadMemory], after: Mapping[str, WorkloadMemory]) -> None:
        """Store the memories. While the decision ran, workloads may have gone and policies may have changed."""
        for uid in before.keys() | after.keys():
            known, decided = self._memories.get(uid), after.get(uid)
            if known is None and uid in before:
                continue
            if decided is None:
                self._memories.pop(uid, None)
            elif known is None or known is before.get(uid):
                self._memories[uid] = decided
            else:
                self._memories[uid] = replace(decided, policy=known.policy)

    async def _wait_until_known(self) -> None:
        """Wait until all objects that may forbid a move are known."""
        told = ""
        while (problem := self._readiness_problem()) is not None:
            if problem != told:
                self._log.warning("moves not started yet", error=problem)
                told = problem
            await asyncio.sleep(_READINESS_RETRY_S)

    def _readiness_problem(self) -> str | None:
        storage = (each.not_ready() for each in self._capacity.storage)
        return self._constraints.readiness_problem() or next(
            (problem for problem in storage if problem is not None), None
        )

    async def _wait_for_change(self, begun: float, seconds: float | None) -> None:
        """Wait for a change, or until `seconds` after the start of the decision; at least for a short time."""
        loop = asyncio.get_running_loop()
        longest = LATEST_S if seconds is None else min(LATEST_S, begun + seconds - loop.time())
        await asyncio.sleep(max(END_SOONEST_S, min(SOONEST_S, longest)))
        try:
            async with asyncio.timeout(max(0.0, longest - SOONEST_S)):
                await self._wake_event.wait()
        except TimeoutError:
            return
