"""One beat of the autoscaler (section 6): how many replicas, what to evict, and whether to begin or end a drain.

`beat` reads the state and its own memory and returns what should happen; `apply` puts the drain into the state. The
loop around it, the scale's writes and the evictor are the controller's. Upstream: pkg/scheduler/statefulset/
autoscaler.go of knative/eventing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from situate.objects.values.counts import counted
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
"""Between two steps of one scale-up: a shortage asks for a beat many times a second."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """So many pods were needed until then; infinity while it still holds."""

    pods: int
    until: float = float("inf")


@dataclass(frozen=True, slots=True)
class Memory:
    """What the autoscaler remembers from beat to beat. A new leader starts with an empty one."""

    watching_since: float | None = None
    recommendations: tuple[Recommendation, ...] = ()
    """Of the last stabilization period: descending, so the first is the most that was needed (B6)."""
    last_compaction: float | None = None
    stepped_at: float | None = None
    """When the last scale-up stopped at `maxScaleUpStep`; None: the last one did not."""
    full: tuple[int, int] | None = None
    """The state's version in which no pod could go, of those from this ordinal on."""


@dataclass(frozen=True, slots=True)
class Beat:
    """What one beat decided. Each part is safe to repeat."""

    needed: int
    """Pods that the demand needs, or that somebody else took away from under it, within the limits."""
    asked: int
    """The same without `maxReplicas`."""
    replicas: int
    """What spec.replicas should be after this beat; the write tests a freshly read resourceVersion (D21)."""
    drain: DrainGoal | None
    """Ordinals that should be emptied from now on."""
    evictions: tuple[Eviction, ...]
    """For the evictor, in order; the first failure ends the beat in the policy era."""
    memory: Memory
    wake_at: float | None
    """When a beat that may shrink has something to do, before the next refresh (D19); None: not before."""
    notices: tuple[Notice, ...] = ()
    """About the StatefulSet."""


def beat(state: State, memory: Memory, now: float, may_shrink: bool) -> Beat:
    """One beat of the leader; a follower makes none. `may_shrink`: not on a mere trigger."""
    state.advance(now)
    if not state.options.safe:
        return _reference_beat(state, memory, now, may_shrink)
    asked = max(pods_needed(state), _reset_and_occupied(state))
    needed = within_limits(state.options, asked)
    memory = _remembering(memory, needed, now, state.options.scale_down_stabilization)
    if needed >= state.replicas:
        decided = _growing(state, memory, now, may_shrink, needed)
    else:
        memory = replace(memory, stepped_at=None)
        lowest = _stable_recommendation(state, memory, now)
        shrinking = _draining if state.options.drain.enabled else _cutting_first
        decided = shrinking(state, memory, now, may_shrink, needed, lowest)
    return replace(decided, asked=max(asked, needed))


def apply(state: State, decided: Beat) -> Memory:
    """Puts the drain into the state; what the autoscaler remembers from now on.

    While the smaller scale is being written its pods are still held: what is decided meanwhile must not go there
    (S8). They are let go when the state is told of the scale, or by the next beat.
    """
    goal = decided.drain
    options = state.options
    if decided.replicas < state.replicas and options.safe and options.drain.enabled:
        kept = state.drain
        goal = kept if kept is not None and kept.target == decided.replicas else DrainGoal(decided.replicas, state.now)
    if goal != state.drain:
        state.set_drain(goal)
    return decided.memory


def within_limits(options: Options, pods: int) -> int:
    """At least `minReplicas`, at most `maxReplicas`, and no more than the API can say."""
    pods = min(max(pods, options.min_replicas), INT32_MAX)
    return pods if options.max_replicas is None else min(pods, options.max_replicas)


def _reset_and_occupied(state: State) -> int:
    """Pods to ask for again where somebody else lowered R: up to the highest that still holds anything (V21)."""
    if state.reset_from is None:
        return 0
    return drain.occupied(state, below=state.reset_from)


def _growing(state: State, memory: Memory, now: float, may_shrink: bool, needed: int) -> Beat:
    """New demand ends a drain at any time. Where nothing is drained, what a cut left behind is evicted.

    A scale-up of more than `maxScaleUpStep` pods goes on step by step, with a pause after each.
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
            Notice("DrainCancelled", f"{counted(needed, 'pod is', 'pods are')} needed again; all accept vreplicas"),
        )
    grown = Beat(needed, needed, replicas, None, (), memory, wake_at, notices)
    if state.options.drain.enabled or not may_shrink or replicas != state.replicas:
        return grown
    return _compacting(state, grown, now)


def _draining(state: State, memory: Memory, now: float, may_shrink: bool, needed: int, lowest: int) -> Beat:
    """Phase 1 empties the ordinals, phase 2 writes the scale; neither begins on a trigger.

    A drain is ended before a lower one begins. Where it stands still it asks again how few pods it can end with: what
    fitted when it began may lie in the way of the rest by now, and pods that are empty do not wait for that (L4).
    """
    goal = state.drain
    kept = Beat(needed, needed, state.replicas, goal, (), memory, _wake_at(state, memory, now))
    if goal is not None and now >= goal.since + state.options.drain.timeout:
        message = f"pods from ordinal {goal.target} on were not empty after {state.options.drain.timeout:g} s"
        again = replace(memory, watching_since=now)
        return replace(kept, drain=None, memory=again, notices=(Notice("DrainTimedOut", message),))
    if lowest >= state.replicas:
        cancelled = (Notice("DrainCancelled", "more pods are needed again"),) if goal is not None else ()
        return replace(kept, drain=None, notices=cancelled)
    if goal is not None and needed > goal.target:
        goal = DrainGoal(lowest, now)  # pods below the new target accept again
    if not may_shrink:
        return replace(kept, drain=goal)
    if goal is None or drain.stands_still(state, goal, now):
        start = lowest if goal is None else goal.target
        target, after = _reachable(state, memory, start, now)
        if target == state.replicas:
            message = f"the vreplicas on pods from ordinal {start} on do not fit on the others"
            notices = (Notice("DrainCancelled", message),) if after is not memory else ()  # said when it was asked
            return replace(kept, drain=None, memory=after, notices=notices)
        if goal is None or goal.target != target:
            goal = DrainGoal(target, now)
    if drain.may_cut(state, goal.target, now):
        # what is needed may have fallen since the drain began: the next one begins at once
        return replace(kept, replicas=goal.target, drain=None, wake_at=now if lowest < goal.target else None)
    settled_at = drain.quiet_since(state, goal) + state.options.drain.settle
    due = settled_at if now < settled_at else goal.since + state.options.drain.timeout
    return replace(kept, drain=goal, wake_at=due)


def _reachable(state: State, memory: Memory, start: int, now: float) -> tuple[int, Memory]:
    """The fewest pods, from `start` on, on which everything finds a place; R where none can go.

    Weights and rules may need more pods than the demand, but those that hold nothing go in any case (L4). What fits on
    some pods is taken to fit on more. Where none can go, that is not asked again before anything changes.
    """
    if memory.full == (state.version, start):
        return state.replicas, memory
    if drain.fits(state, DrainGoal(start, now), now):
        return start, memory
    least, most = start + 1, max(start + 1, min(state.replicas, drain.occupied(state)))
    while least < most:
        middle = (least + most) // 2
        if drain.fits(state, DrainGoal(middle, now), now):
            most = middle
        else:
            least = middle + 1
    return most, memory if most < state.replicas else replace(memory, full=(state.version, start))


def _cutting_first(state: State, memory: Memory, now: float, may_shrink: bool, needed: int, lowest: int) -> Beat:
    """Without a drain the scale goes first and the evictor follows, as in main.

    Not if what lies there finds no other place: the next beat would have to grow the set again, for ever (B5).
    """
    replicas = state.replicas
    if may_shrink and lowest < replicas:
        replicas, memory = _reachable(state, memory, lowest, now)
    kept = Beat(needed, needed, replicas, None, (), memory, _wake_at(state, memory, now))
    return _compacting(state, kept, now) if may_shrink and replicas == state.replicas else kept


def _reference_beat(state: State, memory: Memory, now: float, may_shrink: bool) -> Beat:
    options = state.options
    if adapter.answers(state):
        replicas = adapter.replicas(state, may_shrink)
    else:
        wanted = sum(entry.wanted for entry in state.vpods.values() if entry.listed)
        replicas = max(-(-wanted // options.capacity), options.min_replicas)
        replicas = replicas if may_shrink else max(replicas, state.replicas)
    kept = Beat(replicas, replicas, replicas, None, (), memory, None)
    return _compacting(state, kept, now) if may_shrink and replicas == state.replicas else kept


def _compacting(state: State, kept: Beat, now: float) -> Beat:
    """Section 7: replicas unchanged, and the refresh period has passed since the last attempt."""
    last = kept.memory.last_compaction
    if last is not None and now < last + state.options.refresh_period:
        return kept
    evictions = tuple(evictions_of(state))
    return replace(kept, evictions=evictions, memory=replace(kept.memory, last_compaction=now))


def evictions_of(state: State) -> list[Eviction]:
    """What compaction evicts, by the version that the profile answers like."""
    options = state.options
    if options.safe or (options.policy is PolicyName.SPREAD and options.version is ReferenceVersion.MAIN):
        return drain.placed_from(state, state.replicas)
    if adapter.answers(state):
        return [Eviction(key, p, state.ordinal(p.pod_name) or 0) for key, p in adapter.evictions(state)]
    last = last_ordinal(state)
    if last >= 1 and len(schedulable_pods(state)) > 1 and free_capacity(state) >= options.capacity:
        return drain.placed_from(state, last)
    return []


def _remembering(memory: Memory, needed: int, now: float, period: float) -> Memory:
    """The sliding maximum of what was needed over the stabilization period."""
    before = memory.recommendations
    if before and before[-1].until == float("inf"):
        before = (*before[:-1], Recommendation(before[-1].pods, now))
    kept = tuple(r for r in before if r.pods > needed and r.until > now - period)
    since = now if memory.watching_since is None else memory.watching_since
    return replace(memory, watching_since=since, recommendations=(*kept, Recommendation(needed)))


def _stable_recommendation(state: State, memory: Memory, now: float) -> int:
    """What is low enough to shrink to: the most that was needed throughout; R while that is not known for long."""
    assert memory.watching_since is not None
    if now < memory.watching_since + state.options.scale_down_stabilization:
        return state.replicas
    return min(state.replicas, memory.recommendations[0].pods)


def _wake_at(state: State, memory: Memory, now: float) -> float | None:
    """When shrinking is next allowed if demand stays as it is."""
    assert memory.watching_since is not None
    period = state.options.scale_down_stabilization
    high = [r.until for r in memory.recommendations if r.pods >= state.replicas]
    at = max([memory.watching_since + period, *(until + period for until in high)])
    return at if now < at < float("inf") else None
