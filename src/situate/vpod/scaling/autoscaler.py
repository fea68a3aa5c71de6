"""One round of the autoscaler: the replicas, the evictions, and the begin or end of a drain.

`decide_round` reads the state and its own memory and returns a decision. `apply_drain` writes the drain to the state.
The controller runs the loop, writes the scale and calls the evictor. The rules are in "Autoscaler" of
`docs/spec/vpod.md`. Upstream: pkg/scheduler/statefulset/autoscaler.go of knative/eventing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from situate.objects.values.counts import format_count
from situate.vpod.knative_era import adapter
from situate.vpod.model.options import Options, PolicyName, ReferenceVersion
from situate.vpod.model.records import DrainGoal
from situate.vpod.model.vpod import INT32_MAX
from situate.vpod.placement.decide import Notice
from situate.vpod.scaling import drain
from situate.vpod.scaling.demand import pods_needed
from situate.vpod.scaling.drain import Eviction
from situate.vpod.state.knative_json import free_capacity, last_ordinal, schedulable_pods
from situate.vpod.state.state import State

LEADER_NAMESPACE = "knative-eventing"
LEADER_NAME = "autoscaler-ephemeral"
"""The constant key that the autoscaler's leader owns; never changed across releases."""


STEP_PAUSE_S: Final = 5.0
"""Seconds between two steps of one scale-up: a shortage can trigger many rounds a second."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A number of Pods that was needed until a time; infinity while it is needed."""

    pods: int
    until: float = float("inf")


@dataclass(frozen=True, slots=True)
class AutoscalerMemory:
    """The memory of the autoscaler between rounds. A new leader starts with an empty one."""

    watching_since: float | None = None
    recommendations: tuple[Recommendation, ...] = ()
    """Of the last stabilization period, in descending order; the first is the largest number needed (B6)."""
    last_compaction: float | None = None
    stepped_at: float | None = None
    """The time of the last scale-up that `maxScaleUpStep` cut short; None if no scale-up is cut short."""
    irreducible_at: tuple[int, int] | None = None
    """The version of the state, and the ordinal, for which a search found that no Pod can be removed."""


@dataclass(frozen=True, slots=True)
class RoundDecision:
    """The decision of one round. Each part is safe to repeat."""

    needed: int
    """Pods that the demand needs, or that another client removed while they were in use, within the limits."""
    needed_without_limit: int
    """The same without `maxReplicas`."""
    replicas: int
    """The value of spec.replicas after this round; the write tests a freshly read resourceVersion (D21)."""
    drain: DrainGoal | None
    """The ordinals to empty from now on."""
    evictions: tuple[Eviction, ...]
    """For the evictor, in order; in the policy era the first failure ends the round."""
    memory: AutoscalerMemory
    wake_at: float | None
    """The time of the next useful round that may shrink (D19); None: not before the next refresh."""
    notices: tuple[Notice, ...] = ()
    """About the StatefulSet."""


def decide_round(state: State, memory: AutoscalerMemory, now: float, may_shrink: bool) -> RoundDecision:
    """Decide one round of the leader; a follower decides none. `may_shrink` is false after a trigger."""
    state.advance(now)
    if not state.options.safe:
        return _decide_reference_round(state, memory, now, may_shrink)
    asked = max(pods_needed(state), _pods_used_before_reset(state))
    needed = limit_replicas(state.options, asked)
    memory = _update_recommendations(memory, needed, now, state.options.scale_down_stabilization)
    if needed >= state.replicas:
        decided = _decide_scale_up(state, memory, now, may_shrink, needed)
    else:
        memory = replace(memory, stepped_at=None)
        lowest = _stable_recommendation(state, memory, now)
        shrinking = _decide_drain if state.options.drain.enabled else _decide_scale_down
        decided = shrinking(state, memory, now, may_shrink, needed, lowest)
    return replace(decided, needed_without_limit=max(asked, needed))


def apply_drain(state: State, decided: RoundDecision) -> AutoscalerMemory:
    """Write the drain to the state, and return the memory for the next round.

    While the smaller scale is being written, its Pods are still on hold, so that no decision places vreplicas there
    (S8). The hold ends when the state observes the scale, or in the next round.
    """
    goal = decided.drain
    options = state.options
    if decided.replicas < state.replicas and options.safe and options.drain.enabled:
        kept = state.drain
        goal = kept if kept is not None and kept.target == decided.replicas else DrainGoal(decided.replicas, state.now)
    if goal != state.drain:
        state.set_drain(goal)
    return decided.memory


def limit_replicas(options: Options, pods: int) -> int:
    """Limit a number of Pods to `minReplicas`, `maxReplicas` and the largest number of the API."""
    pods = min(max(pods, options.min_replicas), INT32_MAX)
    return pods if options.max_replicas is None else min(pods, options.max_replicas)


def _pods_used_before_reset(state: State) -> int:
    """Return the Pods to ask for again after another client lowered R: up to the highest one in use."""
    if state.reset_from is None:
        return 0
    return drain.occupied_pod_count(state, below=state.reset_from)


def _decide_scale_up(
    state: State, memory: AutoscalerMemory, now: float, may_shrink: bool, needed: int
) -> RoundDecision:
    """End a drain if demand is back. Without drains, evict the placements that a scale-down left behind.

    A scale-up by more than `maxScaleUpStep` Pods proceeds in steps, with a pause after each.
    """
    step, replicas, wake_at = state.options.max_scale_up_step, needed, None
    if step is not None and needed > state.replicas + step:
        next_step = now if memory.stepped_at is None else memory.stepped_at + STEP_PAUSE_S
        if now >= next_step:
            memory, next_step = replace(memory, stepped_at=now), now + STEP_PAUSE_S
            replicas = state.replicas + step
        else:
            replicas = state.replicas
        wake_at = next_step
    notices: tuple[Notice, ...] = ()
    if state.drain is not None:
        notices = (
            Notice(
                "DrainCancelled", f"{format_count(needed, 'pod is', 'pods are')} needed again; all accept vreplicas"
            ),
        )
    grown = RoundDecision(needed, needed, replicas, None, (), memory, wake_at, notices)
    if state.options.drain.enabled or not may_shrink or replicas != state.replicas:
        return grown
    return _with_compaction(state, grown, now)


def _decide_drain(
    state: State, memory: AutoscalerMemory, now: float, may_shrink: bool, needed: int, lowest: int
) -> RoundDecision:
    """Empty the ordinals (phase 1), then write the scale (phase 2). Neither phase begins on a trigger.

    A drain ends before a drain to a lower target begins. If a drain makes no progress, the target is computed again:
    its first vreplicas may now block the rest, and empty Pods do not wait for that (L4).
    """
    goal = state.drain
    kept = RoundDecision(needed, needed, state.replicas, goal, (), memory, _next_shrink_time(state, memory, now))
    if goal is not None and now >= goal.since + state.options.drain.timeout:
        message = f"pods from ordinal {goal.target} on were not empty after {state.options.drain.timeout:g} s"
        again = replace(memory, watching_since=now)
        return replace(kept, drain=None, memory=again, notices=(Notice("DrainTimedOut", message),))
    if lowest >= state.replicas:
        cancelled = (Notice("DrainCancelled", "more pods are needed again"),) if goal is not None else ()
        return replace(kept, drain=None, notices=cancelled)
    if goal is not None and needed > goal.target:
        goal = DrainGoal(lowest, now)  # Pods below the new target accept again
    if not may_shrink:
        return replace(kept, drain=goal)
    if goal is None or drain.is_stalled(state, goal, now):
        start = lowest if goal is None else goal.target
        target, after = _least_sufficient_pods(state, memory, start, now)
        if target == state.replicas:
            message = f"the vreplicas on pods from ordinal {start} on do not fit on the other pods"
            notices = (Notice("DrainCancelled", message),) if after is not memory else ()  # reported at that time
            return replace(kept, drain=None, memory=after, notices=notices)
        if goal is None or goal.target != target:
            goal = DrainGoal(target, now)
    if drain.may_lower_scale(state, goal.target, now):
        # the need may have fallen since the drain began: the next drain begins at once
        return replace(kept, replicas=goal.target, drain=None, wake_at=now if lowest < goal.target else None)
    settled_at = drain.quiet_since(state, goal) + state.options.drain.settle
    due = settled_at if now < settled_at else goal.since + state.options.drain.timeout
    return replace(kept, drain=goal, wake_at=due)


def _least_sufficient_pods(
    state: State, memory: AutoscalerMemory, start: int, now: float
) -> tuple[int, AutoscalerMemory]:
    """Return the fewest Pods, at least `start`, that hold everything; R if no Pod can be removed.

    Weights and rules may need more Pods than the demand, but empty Pods go in any case (L4). The search assumes that
    vreplicas that fit on some Pods fit on more Pods. If no Pod can be removed, the search is not repeated until the
    state changes.
    """
    if memory.irreducible_at == (state.version, start):
        return state.replicas, memory
    if drain.drain_fits(state, DrainGoal(start, now), now):
        return start, memory
    least, most = start + 1, max(start + 1, min(state.replicas, drain.occupied_pod_count(state)))
    while least < most:
        middle = (least + most) // 2
        if drain.drain_fits(state, DrainGoal(middle, now), now):
            most = middle
        else:
            least = middle + 1
    return most, memory if most < state.replicas else replace(memory, irreducible_at=(state.version, start))


def _decide_scale_down(
    state: State, memory: AutoscalerMemory, now: float, may_shrink: bool, needed: int, lowest: int
) -> RoundDecision:
    """Write the scale first and evict afterwards, as in main; used without a drain.

    The scale is not lowered if vreplicas there find no other place. Otherwise the next round would grow the set again,
    and so on for ever (B5).
    """
    replicas = state.replicas
    if may_shrink and lowest < replicas:
        replicas, memory = _least_sufficient_pods(state, memory, lowest, now)
    kept = RoundDecision(needed, needed, replicas, None, (), memory, _next_shrink_time(state, memory, now))
    return _with_compaction(state, kept, now) if may_shrink and replicas == state.replicas else kept


def _decide_reference_round(state: State, memory: AutoscalerMemory, now: float, may_shrink: bool) -> RoundDecision:
    options = state.options
    if adapter.reproduces_knative(state):
        replicas = adapter.era_replica_count(state, may_shrink)
    else:
        wanted = sum(entry.wanted for entry in state.vpods.values() if entry.listed)
        replicas = max(-(-wanted // options.capacity), options.min_replicas)
        replicas = replicas if may_shrink else max(replicas, state.replicas)
    kept = RoundDecision(replicas, replicas, replicas, None, (), memory, None)
    return _with_compaction(state, kept, now) if may_shrink and replicas == state.replicas else kept


def _with_compaction(state: State, kept: RoundDecision, now: float) -> RoundDecision:
    """Add evictions if the refresh period has passed since the last attempt. The replicas are unchanged."""
    last = kept.memory.last_compaction
    if last is not None and now < last + state.options.refresh_period:
        return kept
    evictions = tuple(compaction_evictions(state))
    return replace(kept, evictions=evictions, memory=replace(kept.memory, last_compaction=now))


def compaction_evictions(state: State) -> list[Eviction]:
    """Return the evictions of a compaction, by the version that the profile reproduces."""
    options = state.options
    if options.safe or (options.policy is PolicyName.SPREAD and options.version is ReferenceVersion.MAIN):
        return drain.evictions_from(state, state.replicas)
    if adapter.reproduces_knative(state):
        return [Eviction(key, p, state.ordinal(p.pod_name) or 0) for key, p in adapter.compaction_evictions(state)]
    last = last_ordinal(state)
    if last >= 1 and len(schedulable_pods(state)) > 1 and free_capacity(state) >= options.capacity:
        return drain.evictions_from(state, last)
    return []


def _update_recommendations(memory: AutoscalerMemory, needed: int, now: float, period: float) -> AutoscalerMemory:
    """Update the sliding maximum of the needed Pods over the stabilization period."""
    before = memory.recommendations
    if before and before[-1].until == float("inf"):
        before = (*before[:-1], Recommendation(before[-1].pods, now))
    kept = tuple(r for r in before if r.pods > needed and r.until > now - period)
    since = now if memory.watching_since is None else memory.watching_since
    return replace(memory, watching_since=since, recommendations=(*kept, Recommendation(needed)))


def _stable_recommendation(state: State, memory: AutoscalerMemory, now: float) -> int:
    """Return the number to shrink to: the most Pods needed in the stabilization period.

    Return R until the period has passed since the first round.
    """
    assert memory.watching_since is not None
    if now < memory.watching_since + state.options.scale_down_stabilization:
        return state.replicas
    return min(state.replicas, memory.recommendations[0].pods)


def _next_shrink_time(state: State, memory: AutoscalerMemory, now: float) -> float | None:
    """Return when shrinking is next allowed if the demand stays the same."""
    assert memory.watching_since is not None
    period = state.options.scale_down_stabilization
    high = [r.until for r in memory.recommendations if r.pods >= state.replicas]
    at = max([memory.watching_since + period, *(until + period for until in high)])
    return at if now < at < float("inf") else None
