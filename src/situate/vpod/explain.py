"""Explain why a vpod has its placements, Pod by Pod, and the autoscaler's next action.

The result is data, for any output. `plan` returns the controller's decisions without writing them. Rule B13.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from situate.objects.values.counts import format_count
from situate.vpod.model.options import PolicyName, Shrink
from situate.vpod.model.pod_classes import Cause, PodClass, Verdict
from situate.vpod.model.vpod import Key, pod_name
from situate.vpod.placement import resize_by_policy
from situate.vpod.placement.decide import Decision, decide
from situate.vpod.placement.shortage import FULL, TOO_SMALL
from situate.vpod.scaling.autoscaler import RoundDecision
from situate.vpod.state.state import State
from situate.vpod.state.vpod_view import VPodView

_MOST_MISSING = 1024  # shown Pods that do not exist; spec.replicas may be any number


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """One Pod from the point of view of the vpod."""

    ordinal: int
    name: str
    pod_class: PodClass
    cause: str
    """The cause of the class; for an accepting Pod `full`, `too small`, the refusal of a predicate, or `ok`."""
    own: int
    """Vreplicas of the vpod on this Pod."""
    own_after: int
    """Vreplicas of the vpod on this Pod after the decision is written."""
    free: int
    """Units; negative if the Pod is overcommitted."""
    free_after: int
    """Units after the decision is written. Future decisions for other vpods are not known."""
    until: float | None
    """The time at which a hold becomes a reject if nothing changes."""


@dataclass(frozen=True, slots=True)
class Explanation:
    key: Key
    known: bool
    """False if there is no such vpod."""
    wanted: int
    placed: int
    decision: Decision | None
    """The decision of a schedule now; None for an unknown vpod."""
    pods: tuple[PodExplanation, ...]
    counts: Mapping[str, int]
    """Number of Pods below R, by cause."""
    autoscaler: str
    """One sentence about the autoscaler's next action."""
    unevenness: str = ""
    """Why `policy: spread` leaves the vpod uneven although Pods have free capacity; empty if it does not."""


def plan(state: State, now: float) -> dict[Key, Decision]:
    """Return the decision of a schedule now for every vpod, each on its own. Nothing is committed."""
    return {key: decide(state, entry.as_vpod(), now) for key, entry in state.vpods.items() if entry.listed}


def explain(state: State, key: Key, now: float, beat: RoundDecision) -> Explanation:
    """Explain one vpod completely. `beat` is the autoscaler's decision now."""
    entry = state.vpods.get(key)
    listed = entry is not None and entry.listed
    decision = decide(state, entry.as_vpod(), now) if entry is not None and listed else None
    own = (entry.reserved or entry.status) if entry is not None else {}
    then = (
        {state.ordinal(placement.pod_name): placement.vreplicas for placement in decision.placements}
        if decision
        else {}
    )
    refused = _filter_reasons(state, key)
    lines = []
    for ordinal in ordinals_to_show(state):
        verdict, free = state.verdict(ordinal), state.free_units(ordinal)
        cause = refused.get(ordinal) or _cause_text(state, verdict, free, entry.weight if entry is not None else 1)
        slot = state.slots.get(ordinal)
        name = slot.name if slot is not None else pod_name(state.options.statefulset_name, ordinal)
        before, after = own.get(ordinal, 0), then.get(ordinal, 0)
        lines.append(
            PodExplanation(
                ordinal=ordinal,
                name=name,
                pod_class=verdict.pod_class,
                cause=cause,
                own=before,
                own_after=after,
                free=free,
                free_after=free - (after - before) * (entry.weight if entry is not None else 1),
                until=verdict.until,
            )
        )
    return Explanation(
        key=key,
        known=listed,
        wanted=entry.wanted if entry is not None else 0,
        placed=sum(own.values()),
        decision=decision,
        pods=tuple(lines),
        counts=Counter(line.cause for line in lines if line.ordinal < state.replicas),
        autoscaler=autoscaler_intention(state, beat),
        unevenness=_explain_unevenness(state, lines, entry.weight) if entry is not None else "",
    )


def _explain_unevenness(state: State, lines: list[PodExplanation], weight: int) -> str:
    options = state.options
    taking = [line.own_after for line in lines if line.pod_class is PodClass.ACCEPT and line.free_after >= weight]
    most = max((line.own_after for line in lines), default=0)
    if options.policy is not PolicyName.SPREAD or not options.safe or most - min(taking, default=most) < 2:
        return ""
    by_auto = " (auto, because minReplicas is 0)" if options.shrink is Shrink.AUTO else ""
    why = (
        "placed vreplicas do not move"
        if options.shrinks_evenly
        else f"shrink is ordinal{by_auto}. Surplus vreplicas leave the highest ordinals first, so that a scale-down "
        "moves fewer. To keep the rest even, set shrink to spread"
    )
    even = (
        "Rebalancing is in progress"
        if options.rebalance.enabled
        else "To spread placed vreplicas, set rebalance.enabled to true"
    )
    return f"uneven: {why}. {even}"


def ordinals_to_show(state: State) -> list[int]:
    """Return the ordinals to show, ascending. If `spec.replicas` is absurdly large, some missing Pods are left out."""
    return sorted({*state.slots, *range(min(state.replicas, len(state.slots) + _MOST_MISSING))})


def autoscaler_intention(state: State, beat: RoundDecision) -> str:
    """Describe the autoscaler's next action and its reason."""
    needed = f"{format_count(beat.needed_without_limit, 'pod is', 'pods are')} needed and {state.replicas} requested"
    if beat.needed_without_limit > beat.needed:
        needed += f", maxReplicas is {beat.needed}"
    if beat.replicas > state.replicas:
        step = (
            f", in steps of {state.options.max_scale_up_step} (maxScaleUpStep)" if beat.replicas < beat.needed else ""
        )
        return f"{needed}: scales up to {beat.replicas}{step}"
    if beat.replicas < state.replicas:
        return f"{needed}: scales down to {beat.replicas}"
    if beat.drain is not None:
        return f"{needed}: drains the pods from ordinal {beat.drain.target} on, then scales down to {beat.drain.target}"
    if beat.evictions:
        return f"{needed}: evicts {format_count(len(beat.evictions), 'placement')}"
    if beat.needed < state.replicas:
        period = state.options.scale_down_stabilization
        return f"{needed}: scales down when fewer have been needed for {period:g} s"
    return f"{needed}: stays"


def _cause_text(state: State, verdict: Verdict, free: int, weight: int) -> str:
    if verdict.cause is Cause.NONE and free < weight:
        return FULL if weight <= state.options.capacity else TOO_SMALL
    return str(verdict.cause)


def _filter_reasons(state: State, key: Key) -> Mapping[int, str]:
    """Return the reasons of the predicates, by ordinal of accepting Pods that they refuse."""
    entry = state.vpods.get(key)
    if entry is None or not state.options.safe or state.options.policy is not PolicyName.POLICY:
        return {}
    situation = VPodView.from_state(state, entry.as_vpod())
    return resize_by_policy.refusals_by_ordinal(situation, situation.start)
