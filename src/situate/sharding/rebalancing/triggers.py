"""Decide when voluntary moves are made: off by default, after the hysteresis, few at a time, never in a rollout.

The policy is a pure function that takes its state and returns the new one. An interval with moves is followed by a
cool-down without moves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from situate.sharding.rebalancing.goals import Goal, misses_goal, plan
from situate.sharding.rebalancing.plans import Move, PlacedObject
from situate.sharding.rebalancing.weighted import weighted_plan


@dataclass(frozen=True, slots=True)
class RebalanceConfig:
    """Settings of rebalancing. Times are in seconds."""

    goal: Goal | None = None
    """None: off."""
    weighted: bool = False
    """Whether to balance loads instead of counts. The goal is then `bounded`, whichever is set."""
    hysteresis_s: float = 60.0
    max_moves_share: float = 0.05
    """Maximum moves in an interval as a share of the open objects; at least 1."""
    interval_s: float = 60.0
    cool_down_s: float = 60.0
    quiet_period_s: float = 60.0
    """No voluntary moves for this long after a change of the members."""
    load_tolerance: float = 0.05
    """Loads that vary by up to this share cause no moves if they were within the goal."""


@dataclass(frozen=True, slots=True)
class RebalanceState:
    """Memory of rebalancing; times are of the monotonic clock. Losing it costs at most one more hysteresis."""

    beyond_since: float | None = None
    """None: within the goal."""
    interval_since: float | None = None
    """When the last interval with moves began; None: no interval is active."""
    made: int = 0
    """Moves in that interval."""


@dataclass(frozen=True, slots=True)
class RebalanceView:
    """The objects and executors to balance at one moment."""

    objects: Sequence[PlacedObject]
    """All open objects. An object that is being drained already has no executor here: it will be assigned again."""
    live: Collection[str]
    """The executors that may receive objects."""
    members_changed_at: float | None = None
    """Of the monotonic clock; None: no change since the start of this process."""
    one_revision: bool = True
    """Whether all executors have the same revision."""


@dataclass(frozen=True, slots=True)
class RebalanceDecision:
    """The result of one decision."""

    state: RebalanceState
    moves: tuple[Move, ...] = ()
    """Each is a drain with the cause `rebalance`. The strategy chooses again, and mostly chooses the same target."""
    wake_at: float | None = None
    """When time alone may change the result; None: it cannot."""
    why: str = ""
    """Why nothing moves although the goal is missed; otherwise empty."""


def rebalance(state: RebalanceState, config: RebalanceConfig, surface: RebalanceView, now: float) -> RebalanceDecision:
    """Return the moves that are due, and the new state. A plan is computed only if moves are allowed now."""
    if config.goal is None:
        return RebalanceDecision(RebalanceState())
    loads = _loads(config, surface)
    if not _misses_goal(config.goal, config, surface, loads):
        return RebalanceDecision(replace(state, beyond_since=None))
    since = now if state.beyond_since is None else state.beyond_since
    state = replace(state, beyond_since=since)
    if not surface.one_revision:
        return RebalanceDecision(state, why="a rollout is in progress: the executors have different revisions")
    budget = max(1, int(config.max_moves_share * len(surface.objects)))
    state, until, why = _next_move_due(state, config, surface, budget, now)
    if now < until:
        return RebalanceDecision(state, wake_at=until, why=why)
    if config.weighted:
        found = weighted_plan(surface.objects, surface.live, bounded_load(surface.objects, len(loads)))
    else:
        found = plan(config.goal, surface.objects, surface.live)
    moves = found.voluntary[: budget - state.made]
    if not moves:  # the objects that are reassigned in any case are enough, or the rest may not move
        return RebalanceDecision(replace(state, beyond_since=None), why=found.why)
    began = now if state.interval_since is None else state.interval_since
    state = replace(state, interval_since=began, made=state.made + len(moves))
    left = len(found.voluntary) - len(moves)
    wake_at = began + config.interval_s + config.cool_down_s if left else None
    return RebalanceDecision(state, moves, wake_at, f"{left} more moves wait for the next interval" if left else "")


def _next_move_due(
    state: RebalanceState, config: RebalanceConfig, surface: RebalanceView, budget: int, now: float
) -> tuple[RebalanceState, float, str]:
    """Return when the next move may be made, and the reason for the wait."""
    assert state.beyond_since is not None
    waits = [(state.beyond_since + config.hysteresis_s, "the goal has been missed for less than the hysteresis time")]
    if surface.members_changed_at is not None:
        waits.append(
            (surface.members_changed_at + config.quiet_period_s, "the set of executors changed within the quiet period")
        )
    if state.interval_since is not None:
        over = state.interval_since + config.interval_s
        ended = over + config.cool_down_s
        if now >= ended:
            state = replace(state, interval_since=None, made=0)
        elif now >= over or state.made >= budget:
            waits.append((ended, "the cool-down after the last moves is not over"))
    return state, *max(waits)


def _loads(config: RebalanceConfig, surface: RebalanceView) -> dict[str, float]:
    """Return the objects of each live executor, as a count or as a sum of loads."""
    loads = dict.fromkeys(surface.live, 0.0)
    for each in surface.objects:
        if each.executor in loads:
            loads[each.executor] += each.load if config.weighted else 1
    return loads


def _misses_goal(goal: Goal, config: RebalanceConfig, surface: RebalanceView, loads: Mapping[str, float]) -> bool:
    """Return whether the executors miss the goal by more than loads may vary."""
    if not loads:
        return False
    if not config.weighted:
        return misses_goal(goal, {executor: int(count) for executor, count in loads.items()})
    varying = (1 + config.load_tolerance) / (1 - config.load_tolerance)
    return max(loads.values()) > bounded_load(surface.objects, len(loads)) * varying


def bounded_load(objects: Iterable[PlacedObject], executors: int) -> float:
    """Return 1.25 times the mean load."""
    return 1.25 * sum(each.load for each in objects) / executors
