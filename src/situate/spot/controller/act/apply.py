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

from situate.spot.controller.act.attempt import Attempt, Outcome
from situate.spot.model.actions import BY_POLICY, Action, Evict, Move
from situate.spot.rebalance.decide import Decision, Situation

_MOVES: Final = 32
"""Parallel moves: many, because a wave leaves little time. The decision applies the limits on policy moves."""
_MARKS: Final = 4
REFUSED_S: Final = 10.0
"""How long a refused pod is not tried again: a budget that forbids its eviction usually does so for a while."""

Try: TypeAlias = Callable[[Action, Decision, Situation], Awaitable[Attempt]]


@dataclass(slots=True)
class _Lane:
    """Actions of one kind: moves or marks."""

    most: int
    """Parallel actions."""
    waiting: deque[Action] = field(default_factory=deque)
    running: int = 0


@dataclass(frozen=True, slots=True)
class _Latest:
    """The latest decision and its inputs, for actions that have not begun."""

    decision: Decision
    situation: Situation
    group: asyncio.TaskGroup


class Acting:
    """Actions of one term, never two at once for a pod and never two policy moves for a workload."""

    def __init__(self, attempt: Try, done: Callable[[Attempt], None]) -> None:
        """`done` is called with the result of each attempt."""
        self._attempt = attempt
        self._done = done
        self._pods: set[str] = set()
        self._owners: set[str] = set()
        self._refused: dict[str, float] = {}
        """Time until which each pod is not tried again, by uid; the earliest time first."""
        self._moves, self._marks = _Lane(_MOVES), _Lane(_MARKS)
        self._latest: _Latest | None = None
        self._log = structlog.get_logger()

    def begin(
        self, actions: Iterable[Action], decision: Decision, situation: Situation, group: asyncio.TaskGroup
    ) -> None:
        """Take over these actions in place of those that have not begun; each runs as a task of the group.

        A pod with an action in progress gets no second one. Pods refused a moment ago are skipped.
        """
        now = asyncio.get_running_loop().time()
        while self._refused and next(iter(self._refused.values())) <= now:
            del self._refused[next(iter(self._refused))]
        self._moves.waiting.clear()
        self._marks.waiting.clear()
        for action in actions:
            if not (isinstance(action, Evict) and action.uid in self._refused):
                (self._moves if isinstance(action, Move) else self._marks).waiting.append(action)
        self._latest = _Latest(decision, situation, group)
        self._start(self._latest)

    def _start(self, latest: _Latest) -> None:
        for lane in (self._moves, self._marks):
            while lane.waiting and lane.running < lane.most:
                action = lane.waiting.popleft()
                policy = _by_policy(action)
                if action.uid in self._pods or (policy and action.owner in self._owners):
                    continue
                self._pods.add(action.uid)
                if policy:
                    self._owners.add(action.owner)
                lane.running += 1
                latest.group.create_task(self._carry_out(action, lane, latest))

    @property
    def under_way(self) -> int:
        return len(self._pods)

    async def _carry_out(self, action: Action, lane: _Lane, latest: _Latest) -> None:
        try:
            attempt = await self._attempt(action, latest.decision, latest.situation)
        except Exception as defect:
            # an unexpected exception costs this pod its move, and admission keeps its leader
            self._log.error(
                "unexpected error of an action", action=type(action).__name__, pod=str(action.pod), exc_info=defect
            )
            attempt = Attempt(action, Outcome.FAILED, f"unexpected error: {defect!r}")
        finally:
            lane.running -= 1
            self._pods.discard(action.uid)
            if _by_policy(action):
                self._owners.discard(action.owner)
        if attempt.outcome is Outcome.REFUSED:
            self._refused[action.uid] = asyncio.get_running_loop().time() + REFUSED_S
        self._tell(attempt)
        self._done(attempt)
        self._start(self._latest or latest)

    def _tell(self, attempt: Attempt) -> None:
        action = attempt.action
        log = self._log.bind(
            action=type(action).__name__,
            pod=str(action.pod),
            reason=str(action.reason) if isinstance(action, Move) else "",
        )
        if attempt.outcome is Outcome.DONE:
            log.info("action carried out")
        elif attempt.outcome in (Outcome.FAILED, Outcome.UNKNOWN):
            log.warning("action failed, deciding again", error=attempt.why)
        else:
            log.info("action not carried out", outcome=str(attempt.outcome), why=attempt.why)


def _by_policy(action: Action) -> bool:
    return isinstance(action, Move) and action.reason in BY_POLICY
