"""Scale-down in two phases: first every vreplica leaves the ordinals that will go, then the scale is written.

The new placement is made before the old one ends, and only the vreplicas that have to leave move. The goal is part of
the state, because Pods of a drain are on hold. The autoscaler decides when a drain begins. The controller makes the
moves, through an evictor or a status write. The rules are in "Compaction, eviction and drain" of `docs/spec/vpod.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from situate.vpod.model.records import DrainGoal, Places, VPodEntry
from situate.vpod.model.vpod import Key, Placement, VPod
from situate.vpod.placement.decide import Decision, decide
from situate.vpod.state.state import State

RETRY_S: Final = 5.0
"""Seconds until the next search for another place."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A placement that the evictor has to remove from its Pod."""

    key: Key
    placement: Placement
    ordinal: int


def vpods_on_drained_pods(state: State) -> list[Key]:
    """Return the vpods with vreplicas on drained ordinals, in lister order."""
    if state.drain is None:
        return []
    target = state.drain.target
    return [key for key, entry in state.vpods.items() if _has_places_from(entry, target)]


def schedule_during_drain(
    state: State, vpod: VPod, now: float, ready: Callable[[Key, str], bool] | None = None
) -> Decision:
    """Schedule a vpod, and move it off the Pods of a drain, if there is one. The caller commits the decision.

    Without `drain.surge`, every vreplica that finds another place leaves in one write. With `drain.surge`, up to
    `surge` vreplicas are added first. As many old ones go once every Pod is `ready`, or after `settle`; see
    `next_retry_time`. If a rule such as a full quota forbids any addition, the vpod moves as without surge. This
    respects the rule, and unused Pods still go (L4).
    """
    state.advance(now)
    entry = state.vpods.get(vpod.key)
    if state.drain is None or entry is None:
        return decide(state, vpod, now)
    if state.options.drain.surge == 0 or vpod.vreplicas == 0 or vpod.deletion_timestamp is not None:
        if entry.surge:
            state.set_surge(vpod.key, 0)  # the extra vreplicas go with the rest (L3)
        return decide(state, vpod, now, leave_draining=True)
    if entry.surge:
        settled = now >= entry.surge_since + state.options.drain.settle
        if settled or (ready is not None and all(ready(vpod.key, p.pod_name) for p in entry.result)):
            state.set_surge(vpod.key, 0)
            return decide(state, vpod, now)
    elif amount := _vreplicas_from(entry, state):
        state.set_surge(vpod.key, min(state.options.drain.surge, amount))
        decision = decide(state, vpod, now)
        if any(change > 0 for change in decision.delta.values()):
            return decision
        state.set_surge(vpod.key, 0)
        return decide(state, vpod, now, leave_draining=True)
    return decide(state, vpod, now)


def next_retry_time(state: State, key: Key) -> float | None:
    """Return when to schedule a vpod again because of its drain; None: only after an event.

    A vreplica without another place may find one after other vpods move, and no event of this vpod reports that.
    """
    entry = state.vpods.get(key)
    if state.drain is None or entry is None:
        return None
    if entry.surge:
        return entry.surge_since + state.options.drain.settle
    return state.now + RETRY_S if _vreplicas_from(entry, state) else None


def drain_evictions(state: State) -> list[Eviction]:
    """Return all status placements on drained ordinals, for a controller with an evictor."""
    return [] if state.drain is None else evictions_from(state, state.drain.target)


def evictions_from(state: State, target: int) -> list[Eviction]:
    """Return the status placements on ordinals from `target` on: vpods in lister order, last placement first."""
    found = []
    for entry in state.vpods.values():
        for placement in reversed(entry.placements):
            ordinal = state.ordinal(placement.pod_name)
            if ordinal is not None and ordinal >= target:
                found.append(Eviction(entry.key, placement, ordinal))
    return found


def record_eviction(state: State, eviction: Eviction) -> None:
    """Remove the reservation of an evicted placement, so that the next schedule places the vreplicas again."""
    entry = state.vpods.get(eviction.key)
    if entry is not None and entry.reserved is not None and eviction.ordinal in entry.reserved:
        state.reserve(eviction.key, {o: n for o, n in entry.reserved.items() if o != eviction.ordinal})


def drain_fits(state: State, goal: DrainGoal, now: float) -> bool:
    """Return whether all vreplicas on the ordinals from the goal on find places on the other ordinals.

    The test runs the later decisions on the state itself and reverts them. Each decision counts as written, so capacity
    that one vpod frees is available to the next one.
    """
    before, moved_at = state.drain, state.drain_moved_at
    state.set_drain(goal)
    undo: list[tuple[Key, dict[int, int] | None, Places, int]] = []
    try:
        for key in vpods_on_drained_pods(state):
            entry = state.vpods[key]
            short = max(0, entry.wanted - entry.reserved_total)
            undo.append((key, None if entry.reserved is None else dict(entry.reserved), entry.status, entry.surge))
            entry.surge = 0  # the extra vreplicas are temporary and need no capacity in the end
            decision = decide(state, entry.as_vpod(), now, leave_draining=True)
            if decision.left > short or any(ordinal >= goal.target for ordinal in decision.reservation):
                return False
            state.reserve(key, decision.reservation, status=decision.reservation)
        return True
    finally:
        for key, places, status, surge in reversed(undo):
            state.reserve(key, places, status=status)
            state.vpods[key].surge = surge
        state.set_drain(before)
        state.drain_moved_at = moved_at


def occupied_pod_count(state: State, below: int | None = None) -> int:
    """Return the number of Pods from ordinal 0 up to the highest one in use, below R or `below`."""
    end = state.replicas if below is None else below
    return 1 + max((o for o, slot in state.slots.items() if o < end and slot.adding > 0), default=-1)


def may_lower_scale(state: State, target: int, now: float) -> bool:
    """Return whether the scale may be written: the ordinals are empty, and the last move has settled."""
    if state.is_used_from(target):
        return False
    return state.drain_moved_at is None or now >= state.drain_moved_at + state.options.drain.settle


def quiet_since(state: State, goal: DrainGoal) -> float:
    """Return when the drain began, or when it last moved a vreplica."""
    return goal.since if state.drain_moved_at is None else max(goal.since, state.drain_moved_at)


def is_stalled(state: State, goal: DrainGoal, now: float) -> bool:
    """Return whether vreplicas are left on the drained Pods, and nothing has moved for `settle` seconds."""
    return state.is_used_from(goal.target) and now >= quiet_since(state, goal) + state.options.drain.settle


def _has_places_from(entry: VPodEntry, target: int) -> bool:
    if entry.reserved and next(reversed(entry.reserved)) >= target:  # reservations are sorted by ordinal
        return True
    return any(ordinal >= target for ordinal, vreplicas in entry.status.items() if vreplicas)


def _vreplicas_from(entry: VPodEntry, state: State) -> int:
    assert state.drain is not None
    target = state.drain.target
    return sum(vreplicas for ordinal, vreplicas in (entry.reserved or {}).items() if ordinal >= target)
