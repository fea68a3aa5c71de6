"""When voluntary moves may be made: off by default, beyond the goal for a while, few at a time, never in a rollout.

The policy is a function; what it has to remember is a value that comes back changed. An interval in which moves are
made is followed by a cool-down in which none are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from situate.sharding.rebalancing.goals import Goal, is_beyond, plan
from situate.sharding.rebalancing.plans import Held, Move
from situate.sharding.rebalancing.weighted import weighted_plan


@dataclass(frozen=True, slots=True)
class RebalanceConfig:
    """Times in seconds."""

    goal: Goal | None = None
    """None: off."""
    weighted: bool = False
    """Whether loads are balanced rather than numbers; the goal is `bounded` then, whichever is set."""
    hysteresis_s: float = 60.0
    max_moves_share: float = 0.05
    """Of the open objects, at least 1, in an interval."""
    interval_s: float = 60.0
    cool_down_s: float = 60.0
    quiet_period_s: float = 60.0
    """After a change of the members nobody is moved."""
    load_tolerance: float = 0.05
    """Loads that vary by this share of themselves move nothing that stood within the goal."""


@dataclass(frozen=True, slots=True)
class RebalanceState:
    """Times are the monotonic clock's. Lost with the process, it costs at most one more hysteresis."""

    beyond_since: float | None = None
    """None: within the goal."""
    interval_since: float | None = None
    """When the last interval with moves began; None: there is none that matters."""
    made: int = 0
    """Moves in that interval."""


@dataclass(frozen=True, slots=True)
class Surface:
    """What there is to balance at one moment."""

    objects: Sequence[Held]
    """All open ones. One that is being drained already is given with no executor: it will be placed anew."""
    live: Collection[str]
    """The executors that may be given work."""
    members_changed_at: float | None = None
    """On the monotonic clock; None: not since this process began."""
    one_revision: bool = True
    """Whether all executors are of the same one."""


@dataclass(frozen=True, slots=True)
class Rebalancing:
    """What to do now."""

    state: RebalanceState
    moves: tuple[Move, ...] = ()
    """Each a drain with the cause `rebalance`; the strategy chooses anew, and mostly the same."""
    wake_at: float | None = None
    """When time alone may change that; None: it cannot."""
    why: str = ""
    """Why nothing is moved although the goal is missed; empty else."""


def rebalance(state: RebalanceState, config: RebalanceConfig, surface: Surface, now: float) -> Rebalancing:
    """The moves that are due, and what to remember. The plan itself is made only when moves may be."""
    if config.goal is None:
        return Rebalancing(RebalanceState())
    loads = _loads(config, surface)
    if not _is_beyond(config.goal, config, surface, loads):
        return Rebalancing(replace(state, beyond_since=None))
    since = now if state.beyond_since is None else state.beyond_since
    state = replace(state, beyond_since=since)
    if not surface.one_revision:
        return Rebalancing(state, why="a rollout is under way: the revisions of executors differ")
    budget = max(1, int(config.max_moves_share * len(surface.objects)))
    state, until, why = _due(state, config, surface, budget, now)
    if now < until:
        return Rebalancing(state, wake_at=until, why=why)
    if config.weighted:
        found = weighted_plan(surface.objects, surface.live, bounded_load(surface.objects, len(loads)))
    else:
        found = plan(config.goal, surface.objects, surface.live)
    moves = found.voluntary[: budget - state.made]
    if not moves:  # what is placed anew anyway is enough, or what is left may not move
        return Rebalancing(replace(state, beyond_since=None), why=found.why)
    began = now if state.interval_since is None else state.interval_since
    state = replace(state, interval_since=began, made=state.made + len(moves))
    left = len(found.voluntary) - len(moves)
    wake_at = began + config.interval_s + config.cool_down_s if left else None
    return Rebalancing(state, moves, wake_at, f"{left} more moves wait for the next interval" if left else "")


def _due(
    state: RebalanceState, config: RebalanceConfig, surface: Surface, budget: int, now: float
) -> tuple[RebalanceState, float, str]:
    """When the next move may be made, and what it waits for."""
    assert state.beyond_since is not None
    waits = [(state.beyond_since + config.hysteresis_s, "beyond the goal for too short a time")]
    if surface.members_changed_at is not None:
        waits.append((surface.members_changed_at + config.quiet_period_s, "executors have changed lately"))
    if state.interval_since is not None:
        over = state.interval_since + config.interval_s
        ended = over + config.cool_down_s
        if now >= ended:
            state = replace(state, interval_since=None, made=0)
        elif now >= over or state.made >= budget:
            waits.append((ended, "cooling down after the last moves"))
    return state, *max(waits)


def _loads(config: RebalanceConfig, surface: Surface) -> dict[str, float]:
    """What each live executor has, in objects or in their loads."""
    loads = dict.fromkeys(surface.live, 0.0)
    for each in surface.objects:
        if each.executor in loads:
            loads[each.executor] += each.load if config.weighted else 1
    return loads


def _is_beyond(goal: Goal, config: RebalanceConfig, surface: Surface, loads: Mapping[str, float]) -> bool:
    """Not within the goal, nor within what loads may vary."""
    if not loads:
        return False
    if not config.weighted:
        return is_beyond(goal, {executor: int(count) for executor, count in loads.items()})
    varying = (1 + config.load_tolerance) / (1 - config.load_tolerance)
    return max(loads.values()) > bounded_load(surface.objects, len(loads)) * varying


def bounded_load(objects: Iterable[Held], executors: int) -> float:
    """1.25 times the mean."""
    return 1.25 * sum(each.load for each in objects) / executors
