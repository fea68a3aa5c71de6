"""The records that `State` holds for one ordinal and for one vpod. Only `State` changes them.

The records are mutable and small for speed: a schedule touches some hundred of them, each through a dictionary lookup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from situate.vpod.model.pod_classes import ACCEPTED, Cause, PodFacts
from situate.vpod.model.vpod import Key, Placements, PlainVPod

T = TypeVar("T")

NO_PLACES: Mapping[int, int] = {}
Places = Mapping[int, int]
"""Vreplicas by ordinal."""


class Slot:
    """One ordinal: its Pod, if any, and the units counted on it. Only `State` changes it."""

    __slots__ = (
        "adding",
        "committed",
        "counted",
        "domain",
        "name",
        "open",
        "ordinal",
        "pod",
        "since",
        "trimming",
        "verdict",
    )

    def __init__(self, ordinal: int, name: str) -> None:
        self.ordinal = ordinal
        self.name = name
        self.pod: PodFacts | None = None
        self.verdict = ACCEPTED
        self.since: float | None = None  # since when the Pod has been unhealthy; None while it is healthy
        self.domain = ""  # the zone or node for topology spread; empty without topology
        self.committed = 0  # units in statuses
        self.adding = 0  # units not available to new vreplicas: the larger of reservation and status for each vpod
        self.trimming = 0  # units that count for overcommit: reservations, and statuses of vpods without one
        self.open = False  # accepts, and has at least one free unit
        self.counted: Cause | None = None  # its cause in the counts of Pods below R; None: not counted


class VPodEntry:
    """One vpod in the state. Only `State` changes it, and its mappings are replaced, never edited."""

    __slots__ = (
        "deleting",
        "invalid",
        "key",
        "listed",
        "placements",
        "priority",
        "reserved",
        "reserved_total",
        "resource_version",
        "result",
        "rule",
        "short_since",
        "status",
        "status_total",
        "surge",
        "surge_since",
        "wanted",
        "weight",
    )

    def __init__(self, key: Key) -> None:
        self.key = key
        self.wanted = 0  # 0 while the vpod is being deleted
        self.deleting = False
        self.weight = 1
        self.priority = 0
        self.listed = False  # False: only a reservation of the vpod is known
        self.placements: Placements = ()  # as its status says, unchecked
        self.invalid: Placements = ()  # the entries of its status with a foreign Pod or a negative number
        self.resource_version = ""
        self.status: Places = NO_PLACES
        self.status_total = 0
        self.reserved: Places | None = None  # None: nothing decided, or decided to have no places
        self.reserved_total = 0
        self.result: Placements = ()  # the reservation as placements, sorted by ordinal
        self.short_since: float | None = None  # since when the decisions have had a shortage
        self.rule = ""  # the rule that caused the last shortage; empty: missing capacity
        self.surge = 0  # vreplicas that run twice while a drain moves them
        self.surge_since = 0.0

    @property
    def is_limited_by_rule(self) -> bool:
        """Whether the last shortage came from a rule, not from missing capacity."""
        return bool(self.rule)

    def as_vpod(self) -> PlainVPod:
        """Return the vpod as it was last observed."""
        return PlainVPod(
            self.key,
            self.wanted,
            self.placements,
            self.resource_version,
            "deleted" if self.deleting else None,
            self.weight,
            self.priority,
        )


@dataclass(frozen=True, slots=True)
class DrainGoal:
    """The goal of a drain: ordinals from `target` on are emptied before the scale is lowered to `target`."""

    target: int
    since: float


def changed_ordinals(old: Places, new: Places) -> Iterable[int]:
    """Return the ordinals whose vreplicas differ."""
    if old is new:
        return ()
    if not old:
        return list(new)
    if not new:
        return list(old)
    return {ordinal for ordinal, _ in old.items() ^ new.items()}


def add_count(counter: Counter[T], name: T, amount: int) -> None:
    """Add to a counter, and drop a count of zero."""
    if amount:
        counter[name] += amount
        if not counter[name]:
            del counter[name]
