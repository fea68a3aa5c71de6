"""Counts of pod outages: which pods failed while they held vreplicas, and whether they recovered within podGrace."""

from __future__ import annotations

from collections import Counter

from situate.vpod.model.pod_classes import Cause, PodClass
from situate.vpod.state.state import State

_TROUBLES = frozenset({Cause.MISSING, Cause.PENDING, Cause.TERMINATING, Cause.FAILED, Cause.NODE_UNREACHABLE})

_HOUR_S = 3500.0
"""Shorter than an hour by the time that a new leader needs to see the pods."""


class Outages:
    """Counts outages by cause as a leader sees them: once per pod, outage and cause."""

    def __init__(self, happened: Counter[str]) -> None:
        self._happened = happened
        self._causes: dict[int, set[Cause]] = {}  # by ordinal: the causes seen so far

    def count_outages(self, state: State) -> None:
        for ordinal, slot in state.slots.items():
            if slot.since is None:
                if (outage := self._causes.pop(ordinal, None)) is not None:
                    self._count_causes(outage, "inside")
                continue
            cause = slot.verdict.cause
            if cause is Cause.PENDING and state.now >= slot.since + _HOUR_S:
                self._happened["pods Pending for an hour"] += 1
            if cause not in _TROUBLES:
                continue
            if slot.verdict.pod_class is PodClass.REJECT:
                if self._causes.pop(ordinal, None) is not None:
                    self._count_causes({cause}, "beyond")
            elif slot.adding:
                self._causes.setdefault(ordinal, set()).add(cause)

    def _count_causes(self, causes: set[Cause], how: str) -> None:
        for cause in causes:
            self._happened[f"{cause} {how} podGrace"] += 1
