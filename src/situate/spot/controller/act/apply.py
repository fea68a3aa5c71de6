"""Execution of decided actions: moves before marks (deletion costs, tolerations), with a limit on parallel actions.

Each pod has at most one action at a time, and each workload at most one policy move. A new decision replaces the
actions that have not begun. `attempt` runs a single action.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import structlog

from situate.spot.controller.act.attempt import Attempt, AttemptOutcome
from situate.spot.model.actions import POLICY_REASONS, Action, Evict, Move
from situate.spot.rebalance.decide import ClusterView, Decision

_MOVES: Final = 32
"""Parallel moves: many, because a wave leaves little time. The decision applies the limits on policy moves."""
_MARKS: Final = 4
REFUSED_S: Final = 10.0
"""How long a refused pod is not tried again: a budget that forbids its eviction usually does so for a while."""

AttemptFunction: TypeAlias = Callable[[Action, Decision, ClusterView], Awaitable[Attempt]]


@dataclass(slots=True)
class _ActionLane:
    """Actions of one kind: moves or marks."""

    most: int
    """Parallel actions."""
    waiting: deque[Action] = field(default_factory=deque)
    running: int = 0


@dataclass(frozen=True, slots=True)
class _LatestDecision:
    """The latest decision and its inputs, for actions that have not begun."""

    decision: Decision
    view: ClusterView
    group: asyncio.TaskGroup


class Applier:
    """Actions of one term, never two at once for a pod and never two policy moves for a workload."""

    def __init__(self, attempt: AttemptFunction, done: Callable[[Attempt], None]) -> None:
        """`done` is called with the result of each attempt."""
        self._attempt = attempt
        self._on_done = done
        self._pods: set[str] = set()
        self._owners: set[str] = set()
        self._retry_times: dict[str, float] = {}
        """Time until which each pod is not tried again, by uid; the earliest time first."""
        self._moves, self._marks = _ActionLane(_MOVES), _ActionLane(_MARKS)
        self._latest: _LatestDecision | None = None
        self._log = structlog.get_logger()

    def apply(
        self, actions: Iterable[Action], decision: Decision, situation: ClusterView, group: asyncio.TaskGroup
    ) -> None:
        """Take over these actions in place of those that have not begun; each runs as a task of the group.

        A pod with an action in progress gets no second one. Pods refused a moment ago are skipped.
        """
        now = asyncio.get_running_loop().time()
        while self._retry_times and next(iter(self._retry_times.values())) <= now:
            del self._retry_times[next(iter(self._retry_times))]
        self._moves.waiting.clear()
        self._marks.waiting.clear()
        for action in actions:
            if not (isinstance(action, Evict) and action.uid in self._retry_times):
                (self._moves if isinstance(action, Move) else self._marks).waiting.append(action)
        self._latest = _LatestDecision(decision, situation, group)
        self._start_waiting(self._latest)

    def _start_waiting(self, latest: _LatestDecision) -> None:
        for lane in (self._moves, self._marks):
            while lane.waiting and lane.running < lane.most:
                action = lane.waiting.popleft()
                policy = _is_policy_move(action)
                if action.uid in self._pods or (policy and action.owner in self._owners):
                    continue
                self._pods.add(action.uid)
                if policy:
                    self._owners.add(action.owner)
                lane.running += 1
                latest.group.create_task(self._execute(action, lane, latest))

    @property
    def in_progress_count(self) -> int:
        return len(self._pods)

    async def _execute(self, action: Action, lane: _ActionLane, latest: _LatestDecision) -> None:
        try:
            attempt = await self._attempt(action, latest.decision, latest.view)
        except Exception as defect:
            # an unexpected exception costs this pod its move, and admission keeps its leader
            self._log.error(
                "unexpected error of an action", action=type(action).__name__, pod=str(action.pod), exc_info=defect
            )
            attempt = Attempt(action, AttemptOutcome.FAILED, f"unexpected error: {defect!r}")
        finally:
            lane.running -= 1
            self._pods.discard(action.uid)
            if _is_policy_move(action):
                self._owners.discard(action.owner)
        if attempt.outcome is AttemptOutcome.REFUSED:
            self._retry_times[action.uid] = asyncio.get_running_loop().time() + REFUSED_S
        self._log_attempt(attempt)
        self._on_done(attempt)
        self._start_waiting(self._latest or latest)

    def _log_attempt(self, attempt: Attempt) -> None:
        action = attempt.action
        log = self._log.bind(
            action=type(action).__name__,
            pod=str(action.pod),
            reason=str(action.reason) if isinstance(action, Move) else "",
        )
        if attempt.outcome is AttemptOutcome.DONE:
            log.info("action carried out")
        elif attempt.outcome in (AttemptOutcome.FAILED, AttemptOutcome.UNKNOWN):
            log.warning("action failed, deciding again", error=attempt.why)
        else:
            log.info("action not carried out", outcome=str(attempt.outcome), why=attempt.why)


def _is_policy_move(action: Action) -> bool:
    return isinstance(action, Move) and action.reason in POLICY_REASONS
