"""What must hold of one decision of vpod before it is remembered (S2 to S5), worked out pod by pod.

A plain twin: it reads the state's facts only and shares no code with what decides.
"""

from __future__ import annotations

from situate.vpod.decide import Decision, MoveCause
from situate.vpod.options import PolicyName
from situate.vpod.pods import PodClass
from situate.vpod.records import NO_PLACES, Entry, Places
from situate.vpod.state import State


def breach_of(state: State, decision: Decision) -> str | None:
    """What is wrong with a decision in the state that it was made in; None if nothing is."""
    entry = state.vpods.get(decision.key)
    if entry is None:
        return f"S6: {decision.key} was decided and is not known"
    return (
        _sum(state, decision, entry)
        or _places(state, decision, entry)
        or _room(state, decision, entry)
        or _calm(state, decision, entry)
    )


def _sum(state: State, decision: Decision, entry: Entry) -> str | None:
    """S2: wanted <= sum <= target, unless some are left over. A drain with surge runs some twice for a while."""
    placed = sum(decision.reservation.values())
    twice = entry.surge if state.drain is not None else 0
    if placed > decision.target + twice:
        return f"S2: {decision.key} gets {placed} of {decision.target}"
    if placed + decision.left < decision.wanted:
        return f"S2: {decision.key} gets {placed} of {decision.wanted}, and {decision.left} are said to be left"
    return None


def _before(decision: Decision, entry: Entry) -> Places:
    if decision.base is not None:
        return decision.base
    return {ordinal: n for ordinal, n in entry.status.items() if n > 0}


def _places(state: State, decision: Decision, entry: Entry) -> str | None:
    """S4: on pods that accept or are held, and what is new on accepting ones only."""
    before = _before(decision, entry)
    for ordinal, vreplicas in decision.reservation.items():
        verdict = state.verdict(ordinal)
        new = vreplicas > before.get(ordinal, 0)
        if verdict.pod_class is PodClass.REJECT or (new and verdict.pod_class is not PodClass.ACCEPT):
            return f"S4: {decision.key} is put on ordinal {ordinal}, which is {verdict.cause}"
    return None


def _room(state: State, decision: Decision, entry: Entry) -> str | None:
    """S3: some are left over only if no accepting pod has room for one, or a rule that is named forbids it."""
    named = decision.shortage is not None and decision.shortage.limit is not None
    if not decision.left or named or state.options.policy is PolicyName.POLICY:
        return None  # the filters of a policy name their refusals pod by pod
    held = entry.reserved or NO_PLACES
    for ordinal, slot in state.slots.items():
        if slot.verdict.pod_class is not PodClass.ACCEPT:
            continue
        status = entry.status.get(ordinal, 0)
        others = slot.adding - max(held.get(ordinal, 0), status) * entry.weight
        ours = max(decision.reservation.get(ordinal, 0) + 1, status) * entry.weight
        if others + ours <= state.options.capacity:
            return f"S3: {decision.key} is left {decision.left} short while ordinal {ordinal} has room"
    return None


def _calm(state: State, decision: Decision, entry: Entry) -> str | None:
    """S5: what is satisfied on pods that accept or are held stays, unless a drain or rebalancing says otherwise."""
    before = entry.reserved
    if before is None or entry.surge or MoveCause.REBALANCE in decision.moves or not decision.delta:
        return None
    if sum(before.values()) != decision.target:
        return None
    for ordinal in before:
        slot = state.slots.get(ordinal)
        if slot is None or slot.trimming > state.options.capacity or state.is_drained(ordinal):
            return None
        if slot.verdict.pod_class is PodClass.REJECT:
            return None
    return f"S5: {decision.key} was satisfied on {dict(before)} and is moved to {dict(decision.reservation)}"
