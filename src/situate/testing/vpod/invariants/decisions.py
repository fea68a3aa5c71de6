"""Rules for one decision of vpod before the state remembers it (S2 to S5, B4, B7), checked pod by pod.

This plain twin reads facts of the state only and shares no code with the deciding code.
"""

from __future__ import annotations

import json

from situate.vpod.model.options import PolicyName, Topology
from situate.vpod.model.pod_classes import PodClass
from situate.vpod.model.records import NO_PLACES, Places, VPodEntry
from situate.vpod.placement.decide import Decision, MoveCause
from situate.vpod.state.fairness_limits import Rule
from situate.vpod.state.state import State


def breach_of(state: State, decision: Decision) -> str | None:
    """Return the breach of a decision in the state on which it was made, or None."""
    entry = state.vpods.get(decision.key)
    if entry is None:
        return f"S6: a decision was made for {decision.key}, which is not known"
    return (
        _check_sum(state, decision, entry)
        or _check_places(state, decision, entry)
        or _check_leftover(state, decision, entry)
        or _check_moved(state, decision, entry)
        or _check_calm(state, decision, entry)
        or _check_returned(state, decision, entry)
        or _check_rebalance(state, decision, entry)
    )


def _check_sum(state: State, decision: Decision, entry: VPodEntry) -> str | None:
    """Check S2: wanted <= sum <= target, unless some vreplicas are left over.

    A drain with surge runs some vreplicas twice for a while.
    """
    placed = sum(decision.reservation.values())
    twice = entry.surge if state.drain is not None else 0
    if placed > decision.target + twice:
        return f"S2: {decision.key} gets {placed} of {decision.target}"
    if placed + decision.left < decision.wanted:
        return f"S2: {decision.key} gets {placed} of {decision.wanted}, but {decision.left} are reported as left"
    return None


def _check_returned(state: State, decision: Decision, entry: VPodEntry) -> str | None:
    """Check D6: surplus copies are returned only if another vpod is short."""
    if state.options.policy is not PolicyName.SPREAD:
        return None  # no other policy adds spare copies
    after, before = sum(decision.reservation.values()), entry.reserved_total
    lost = [o for o, n in _reservation_before(decision, entry).items() if n > decision.reservation.get(o, 0)]
    most = min(state.options.min_replicas, sum(s.verdict.pod_class is PodClass.ACCEPT for s in state.slots.values()))
    if after >= before or after >= max(decision.wanted, most) or decision.wanted == 0 or decision.left or entry.surge:
        return None
    calm = all(
        state.verdict(o).pod_class is PodClass.ACCEPT and state.slots[o].trimming <= state.options.capacity
        for o in lost
    )
    waits = any(other.short_since is not None for other in state.vpods.values() if other is not entry)
    if not calm or waits:
        return None
    return f"D6: {decision.key} returns {before - after} copies, but no vpod is short"


def _reservation_before(decision: Decision, entry: VPodEntry) -> Places:
    if decision.base is not None:
        return decision.base
    return {ordinal: n for ordinal, n in entry.status.items() if n > 0}


def _check_places(state: State, decision: Decision, entry: VPodEntry) -> str | None:
    """Check S4: vreplicas are on pods of class accept or hold, and new ones on pods of class accept only."""
    before = _reservation_before(decision, entry)
    for ordinal, vreplicas in decision.reservation.items():
        verdict = state.verdict(ordinal)
        new = vreplicas > before.get(ordinal, 0)
        if verdict.pod_class is PodClass.REJECT or (new and verdict.pod_class is not PodClass.ACCEPT):
            return f"S4: {decision.key} is placed on ordinal {ordinal}, which is {verdict.cause}"
    return None


def _check_leftover(state: State, decision: Decision, entry: VPodEntry) -> str | None:
    """Check S3: vreplicas are left over only if no accepting pod has capacity for one, or a named rule forbids it.

    If the named rule is the predicates of a policy, the predicates must refuse each of the pods.
    """
    rule = decision.shortage.limit.rule if decision.shortage is not None and decision.shortage.limit is not None else ""
    if not decision.left or rule not in ("", Rule.PREDICATES):
        return None
    most_pods = _max_pods(state) if rule else len(state.slots)
    held = entry.reserved or NO_PLACES
    for ordinal, slot in state.slots.items():
        if slot.verdict.pod_class is not PodClass.ACCEPT:
            continue
        if not decision.reservation.get(ordinal) and len(decision.reservation) >= most_pods:
            continue
        status = entry.status.get(ordinal, 0)
        others = slot.adding - max(held.get(ordinal, 0), status) * entry.weight
        ours = max(decision.reservation.get(ordinal, 0) + 1, status) * entry.weight
        if others + ours <= state.options.capacity:
            return f"S3: {decision.key} is left {decision.left} short while ordinal {ordinal} has capacity"
    return None


def _max_pods(state: State) -> int:
    """Return the maximum number of pods per vpod.

    Of the predicates that histories configure, only NoMaxResourceCount limits it.
    """
    for predicate in state.options.placing.predicates:
        if predicate.name == "NoMaxResourceCount":
            most: int = json.loads(predicate.args or "{}")["NumPartitions"]
            return most
    return len(state.slots)


def _check_moved(state: State, decision: Decision, entry: VPodEntry) -> str | None:
    """Check B4 and S5: no more vreplicas leave a pod than must, whatever the cause.

    These must leave: vreplicas on pods that reject or are drained, vreplicas above a pod's capacity, and surplus ones.
    If several causes hold at once, the surplus leaves. Another check covers rebalancing.
    """
    before, after, options = _reservation_before(decision, entry), decision.reservation, state.options
    if decision.base is None:
        return None  # a status written by another writer is adopted as it is
    gone = sum(max(0, held - after.get(ordinal, 0)) for ordinal, held in before.items())
    if not gone or is_rebalance(state, decision):
        return None
    forced = 0
    for ordinal, held in before.items():
        slot = state.slots.get(ordinal)
        if slot is None or slot.verdict.pod_class is PodClass.REJECT or state.is_drained(ordinal):
            forced += held
        elif slot.trimming > options.capacity:
            forced += min(held, -(-(slot.trimming - options.capacity) // entry.weight))
    surplus = sum(before.values()) - decision.target
    allowed = max(forced, surplus) + decision.moves.get(MoveCause.REBALANCE, 0)
    if gone > allowed:
        rule = "B4" if state.drain is not None else "S5"
        return f"{rule}: {gone} of {decision.key} leave {dict(before)} for {dict(after)}, {allowed} must"
    return None


def _check_calm(state: State, decision: Decision, entry: VPodEntry) -> str | None:
    """Check S5: a satisfied vpod on pods of class accept or hold does not move, except for a drain or rebalancing."""
    if MoveCause.REBALANCE in decision.moves or not decision.delta or not _is_satisfied(state, decision, entry):
        return None
    return (
        f"S5: {decision.key} was satisfied on {dict(_held_places(entry))} and is moved to {dict(decision.reservation)}"
    )


def _held_places(entry: VPodEntry) -> Places:
    return entry.reserved or NO_PLACES


def _is_satisfied(state: State, decision: Decision, entry: VPodEntry) -> bool:
    """Return whether only a drain or rebalancing may move vreplicas of the vpod."""
    if entry.reserved is None or entry.surge or sum(entry.reserved.values()) != decision.target:
        return False
    for ordinal in entry.reserved:
        slot = state.slots.get(ordinal)
        if slot is None or slot.trimming > state.options.capacity or state.is_drained(ordinal):
            return False
        if slot.verdict.pod_class is PodClass.REJECT:
            return False
    return True


def is_rebalance(state: State, decision: Decision) -> bool:
    """Return whether the decision only rebalances (B7) a satisfied vpod.

    Spreading over `minReplicas` pods (D7) is not rebalancing.
    """
    entry = state.vpods.get(decision.key)
    if entry is None or not decision.delta or not _is_satisfied(state, decision, entry):
        return False
    accepting = sum(slot.pod is not None and slot.verdict.pod_class is PodClass.ACCEPT for slot in state.slots.values())
    return len(_held_places(entry)) >= min(state.options.min_replicas, decision.target, accepting)


def _check_rebalance(state: State, decision: Decision, entry: VPodEntry) -> str | None:
    """Check B7: few moves, from pods with at least two vreplicas more, to pods with capacity for them."""
    if not is_rebalance(state, decision):
        return None
    options, before, after = state.options, _held_places(entry), decision.reservation
    givers = {o: n - after.get(o, 0) for o, n in before.items() if n > after.get(o, 0)}
    takers = {o: n - before.get(o, 0) for o, n in after.items() if n > before.get(o, 0)}
    moves = sum(givers.values())
    said = f"B7: {decision.key} is moved from {dict(before)} to {dict(after)}"
    if not options.rebalance.enabled or state.drain is not None:
        return f"{said} although rebalancing is off or a drain is in progress"
    if moves != sum(takers.values()) or moves > options.rebalance.max_moves_per_vpod:
        return f"{said}: {moves} moves, {options.rebalance.max_moves_per_vpod} are allowed"
    for ordinal in takers:
        slot = state.slots[ordinal]
        ours = max(before.get(ordinal, 0), entry.status.get(ordinal, 0)) * entry.weight
        if slot.adding - ours + after[ordinal] * entry.weight > options.capacity:
            return f"{said}: ordinal {ordinal} has no capacity for that"
    if options.topology is Topology.NONE:
        for giver in givers:
            for taker in takers:
                if before[giver] - before.get(taker, 0) < 1 or after.get(giver, 0) < after[taker] - 1:
                    return f"{said}, which is no more even"
        if max(before[o] for o in givers) - min(before.get(o, 0) for o in takers) < 2:
            return f"{said}, which was even"
    return None
