"""Explain a shortage in numbers and in one sentence."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from situate.objects.values.counts import format_count
from situate.vpod.model.pod_classes import Cause
from situate.vpod.model.records import Places
from situate.vpod.state.fairness_limits import Limit, Rule
from situate.vpod.state.vpod_view import VPodView

FULL = "full"
TOO_SMALL = "too small"
"""The reason of Pods that could not hold one vreplica even if they were empty."""


class Shortage(msgspec.Struct, frozen=True):
    """A shortage of `left` vreplicas: how many Pods can take one more, and why the other Pods cannot."""

    left: int
    pods: int
    """spec.replicas."""
    fit: int
    counts: Mapping[str, int]
    """Pods by reason, without zeros; the sum is pods - fit."""
    limit: Limit | None = None
    """The rule that forbids the placement, possibly despite free capacity."""
    ceiling: str = ""
    """How `maxReplicas` prevents enough Pods; empty if it does not."""

    @property
    def reason(self) -> str:
        """The reason of the Event."""
        told = self.limit is not None and self.limit.rule in (Rule.WEIGHT, Rule.QUOTA)
        return str(self.limit.rule) if self.limit is not None and told else "NotEnoughReplicas"

    def __str__(self) -> str:
        """Return a sentence such as `0/12 pods can take 3 more: 9 full, 2 unschedulable, 1 pending`.

        If the vreplica is larger than any Pod, the sentence says only that, and no other reason.
        """
        if self.limit is not None and self.limit.rule is Rule.WEIGHT:
            return f"{self.fit}/{self.pods} pods can take {self.left} more; {self.limit.rule}: {self.limit.message}"
        ordered = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        reasons = ", ".join(f"{number} {reason}" for reason, number in ordered)
        sentence = f"{self.fit}/{self.pods} pods can take {self.left} more" + (f": {reasons}" if reasons else "")
        if self.ceiling:
            sentence = f"{sentence}; {self.ceiling}"
        return sentence if self.limit is None else f"{sentence}; {self.limit.rule}: {self.limit.message}"


def missing_statefulset_message(name: str) -> str:
    """Return the message about a missing StatefulSet, for the Event and for the condition of vpods with a shortage."""
    return f"StatefulSet {name} does not exist: create it, or correct the configuration of vpod"


def describe_shortage(situation: VPodView, own: Places, left: int, limit: Limit | None) -> Shortage:
    """Describe the shortage of a vpod that holds `own` after the decision.

    O(reasons + own entries) for vreplicas of weight 1; with a higher weight, each Pod with free capacity is checked.
    """
    state = situation.state
    ours = situation.known_places() | own.keys()
    fit = sum(situation.free_vreplicas(ordinal, own.get(ordinal, 0)) > 0 for ordinal in ours)
    if situation.weight == 1:
        slots = state.slots
        fit += sum(map(len, state.open.values())) - sum(o in slots and slots[o].open for o in ours)
    else:
        fit += sum(
            ordinal not in ours and situation.free_vreplicas(ordinal, 0) > 0
            for ordinals in state.open.values()
            for ordinal in ordinals
        )
    counts = {str(cause): number for cause, number in state.causes.items() if cause is not Cause.NONE}
    full = state.causes[Cause.NONE] - fit
    if full:
        counts[FULL if situation.weight <= state.options.capacity else TOO_SMALL] = full
    missing = state.replicas - state.causes.total()
    if missing:
        counts[str(Cause.MISSING)] = counts.get(str(Cause.MISSING), 0) + missing
    ceiling = "" if limit is not None else _ceiling_text(situation, left + sum(own.values()))
    return Shortage(left, state.replicas, fit, counts, limit, ceiling)


def _ceiling_text(situation: VPodView, wanted: int) -> str:
    options, replicas = situation.state.options, situation.state.replicas
    most, each = options.max_replicas, options.capacity // situation.weight
    if most is None or not options.safe or not each:
        return ""
    alone = -(-wanted // each)
    if alone > most:
        return f"{wanted} vreplicas need {format_count(alone, 'pod')}, but maxReplicas is {most}"
    return f"maxReplicas is {most}, so no pods are added" if replicas >= most else ""
