"""Why vreplicas found no place, in numbers and in one sentence (B13)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from situate.objects.values.counts import counted
from situate.vpod.model.pod_classes import Cause
from situate.vpod.model.records import Places
from situate.vpod.state.fairness_limits import Limit, Rule
from situate.vpod.state.vpod_view import Situation

FULL = "full"
TOO_SMALL = "too small"
"""Of pods that a vreplica would not fit on if they were empty."""


class Shortage(msgspec.Struct, frozen=True):
    """`left` vreplicas have no place: how many of the pods would take one, and what is with the others."""

    left: int
    pods: int
    """spec.replicas."""
    fit: int
    counts: Mapping[str, int]
    """Pods by reason, none of them 0; the sum is pods - fit."""
    limit: Limit | None = None
    """The rule that forbids it although there may be room."""
    ceiling: str = ""
    """Why `maxReplicas` keeps the pods from becoming enough; empty if it does not."""

    @property
    def reason(self) -> str:
        """Of the Event."""
        told = self.limit is not None and self.limit.rule in (Rule.WEIGHT, Rule.QUOTA)
        return str(self.limit.rule) if self.limit is not None and told else "NotEnoughReplicas"

    def __str__(self) -> str:
        """`0/12 pods can take 3 more: 9 full, 2 unschedulable, 1 pending`.

        Of a vreplica that is larger than any pod that alone is said, whatever else is with the pods.
        """
        if self.limit is not None and self.limit.rule is Rule.WEIGHT:
            return f"{self.fit}/{self.pods} pods can take {self.left} more; {self.limit.rule}: {self.limit.message}"
        ordered = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        reasons = ", ".join(f"{number} {reason}" for reason, number in ordered)
        sentence = f"{self.fit}/{self.pods} pods can take {self.left} more" + (f": {reasons}" if reasons else "")
        if self.ceiling:
            sentence = f"{sentence}; {self.ceiling}"
        return sentence if self.limit is None else f"{sentence}; {self.limit.rule}: {self.limit.message}"


def missing_statefulset(name: str) -> str:
    """What people are told, in the Event and in the condition of whoever waits for room (D20)."""
    return f"StatefulSet {name} does not exist: create it, or correct the configuration of vpod"


def shortage(situation: Situation, own: Places, left: int, limit: Limit | None) -> Shortage:
    """Of a vpod that holds `own` after the decision.

    O(reasons + own entries) for vreplicas of weight 1; for heavier ones each pod with room is asked.
    """
    state = situation.state
    ours = situation.known_places() | own.keys()
    fit = sum(situation.room(ordinal, own.get(ordinal, 0)) > 0 for ordinal in ours)
    if situation.weight == 1:
        slots = state.slots
        fit += sum(map(len, state.open.values())) - sum(o in slots and slots[o].open for o in ours)
    else:
        fit += sum(
            ordinal not in ours and situation.room(ordinal, 0) > 0
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
    ceiling = "" if limit is not None else _ceiling(situation, left + sum(own.values()))
    return Shortage(left, state.replicas, fit, counts, limit, ceiling)


def _ceiling(situation: Situation, wanted: int) -> str:
    options, replicas = situation.state.options, situation.state.replicas
    most, each = options.max_replicas, options.capacity // situation.weight
    if most is None or not options.safe or not each:
        return ""
    alone = -(-wanted // each)
    if alone > most:
        return f"{wanted} vreplicas need {counted(alone, 'pod')}, maxReplicas is {most}"
    return f"maxReplicas is {most}, so no pods are added" if replicas >= most else ""
