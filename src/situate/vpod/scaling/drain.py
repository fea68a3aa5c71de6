"""Scale-down in two phases, make before break (section 7): first every vreplica leaves the ordinals that will go,
then the scale is written. Nothing runs nowhere, and no more moves than had to leave.

The goal lives in the state, because pods that are drained are held. When to begin is the autoscaler's business; who
carries out the moves, an evictor or a write of the status, is the controller's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from situate.vpod.model.records import DrainGoal, Entry, Places
from situate.vpod.model.vpod import Key, Placement, VPod
from situate.vpod.placement.decide import Decision, decide
from situate.vpod.state.state import State

LOOK_AGAIN_S: Final = 5.0
"""After so long another place is looked for once more."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A placement that has to leave its pod, through the evictor."""

    key: Key
    placement: Placement
    ordinal: int


def leaving(state: State) -> list[Key]:
    """Vpods with anything on the ordinals that are drained, in lister order."""
    if state.drain is None:
        return []
    target = state.drain.target
    return [key for key, entry in state.vpods.items() if _lies_from(entry, target)]


def place(state: State, vpod: VPod, now: float, ready: Callable[[Key, str], bool] | None = None) -> Decision:
    """Schedules a vpod, and moves it off the pods that are being drained if any are. The caller commits it.

    Without `drain.surge` everything that finds another place leaves in one write. With it, up to `surge` vreplicas are
    added first, and as many old ones go once `ready` says so of every pod, or after `settle`; `retry_at` says when.
    Where a rule forbids even one more, such as a quota that is used up, what must leave goes as without surge: the
    rule is kept, and so is the promise that unused pods go (L4).
    """
    state.advance(now)
    entry = state.vpods.get(vpod.key)
    if state.drain is None or entry is None:
        return decide(state, vpod, now)
    if state.options.drain.surge == 0 or vpod.vreplicas == 0 or vpod.deletion_timestamp is not None:
        if entry.surge:
            state.set_surge(vpod.key, 0)  # what ran twice goes with the rest (L3)
        return decide(state, vpod, now, leave_draining=True)
    if entry.surge:
        settled = now >= entry.surge_since + state.options.drain.settle
        if settled or (ready is not None and all(ready(vpod.key, p.pod_name) for p in entry.result)):
            state.set_surge(vpod.key, 0)
            return decide(state, vpod, now)
    elif amount := _amount_from(entry, state):
        state.set_surge(vpod.key, min(state.options.drain.surge, amount))
        decision = decide(state, vpod, now)
        if any(change > 0 for change in decision.delta.values()):
            return decision
        state.set_surge(vpod.key, 0)
        return decide(state, vpod, now, leave_draining=True)
    return decide(state, vpod, now)


def retry_at(state: State, key: Key) -> float | None:
    """When to schedule a vpod again for its drain's sake, beside any event; None: not for that.

    What found no other place does so when others have made room, of which no event on this vpod tells.
    """
    entry = state.vpods.get(key)
    if state.drain is None or entry is None:
        return None
    if entry.surge:
        return entry.surge_since + state.options.drain.settle
    return state.now + LOOK_AGAIN_S if _amount_from(entry, state) else None


def evictions(state: State) -> list[Eviction]:
    """Every status placement on the ordinals that are drained, for a controller with an evictor."""
    return [] if state.drain is None else placed_from(state, state.drain.target)


def placed_from(state: State, target: int) -> list[Eviction]:
    """Status placements on these ordinals: vpods in lister order, of each the last placement first."""
    found = []
    for entry in state.vpods.values():
        for placement in reversed(entry.placements):
            ordinal = state.ordinal(placement.pod_name)
            if ordinal is not None and ordinal >= target:
                found.append(Eviction(entry.key, placement, ordinal))
    return found


def evicted(state: State, eviction: Eviction) -> None:
    """The evictor has taken a placement away: its reservation goes too, so that the next schedule places it anew."""
    entry = state.vpods.get(eviction.key)
    if entry is not None and entry.reserved is not None and eviction.ordinal in entry.reserved:
        state.reserve(eviction.key, {o: n for o, n in entry.reserved.items() if o != eviction.ordinal})


def fits(state: State, goal: DrainGoal, now: float) -> bool:
    """Whether everything on the ordinals that would go finds a place on the others.

    Tried on the state itself, by the same decisions that would follow, and taken back. Each counts as written: what a
    vpod leaves on its way, on other pods too, is room for the next one.
    """
    before, moved_at = state.drain, state.drain_moved_at
    state.set_drain(goal)
    undo: list[tuple[Key, dict[int, int] | None, Places, int]] = []
    try:
        for key in leaving(state):
            entry = state.vpods[key]
            short = max(0, entry.wanted - entry.reserved_total)
            undo.append((key, None if entry.reserved is None else dict(entry.reserved), entry.status, entry.surge))
            entry.surge = 0  # what runs twice for a while needs no room in the end
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


def occupied(state: State, below: int | None = None) -> int:
    """So many pods, counted from ordinal 0, reach up to the highest one below R (or `below`) that holds anything."""
    end = state.replicas if below is None else below
    return 1 + max((o for o, slot in state.slots.items() if o < end and slot.adding > 0), default=-1)


def may_cut(state: State, target: int, now: float) -> bool:
    """Phase 2's guard (S8): nothing lies or is reserved on the ordinals that would go, and the last move settled."""
    if state.holds_from(target):
        return False
    return state.drain_moved_at is None or now >= state.drain_moved_at + state.options.drain.settle


def quiet_since(state: State, goal: DrainGoal) -> float:
    """When the drain began, or something last moved in it."""
    return goal.since if state.drain_moved_at is None else max(goal.since, state.drain_moved_at)


def stands_still(state: State, goal: DrainGoal, now: float) -> bool:
    """Whether something is left on the pods, and nothing has moved for as long as a move takes to settle."""
    return state.holds_from(goal.target) and now >= quiet_since(state, goal) + state.options.drain.settle


def _lies_from(entry: Entry, target: int) -> bool:
    if entry.reserved and next(reversed(entry.reserved)) >= target:  # reservations are sorted by ordinal
        return True
    return any(ordinal >= target for ordinal, vreplicas in entry.status.items() if vreplicas)


def _amount_from(entry: Entry, state: State) -> int:
    assert state.drain is not None
    target = state.drain.target
    return sum(vreplicas for ordinal, vreplicas in (entry.reserved or {}).items() if ordinal >= target)
