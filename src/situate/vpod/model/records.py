"""What `State` keeps of one ordinal and of one vpod. Only `State` changes them; everybody else reads.

Mutable and small on purpose: a schedule touches some hundred of them, and each takes a dictionary's lookup to find.
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
    """One ordinal: the pod there, if any, and the units counted on it. Changed by `State` only."""

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
        self.since: float | None = None  # since when the pod has been out of order; None while it is not
        self.domain = ""  # the zone or node that spreading looks at; empty without topology
        self.committed = 0  # units in statuses
        self.adding = 0  # units that leave no room for new ones: per vpod the larger of reservation and status
        self.trimming = 0  # units that count as overcommit: reservations, statuses of vpods without one
        self.open = False  # accepts, and has room for one unit
        self.counted: Cause | None = None  # what it counts as among the pods below R; None: not counted


class Entry:
    """One vpod as the state knows it. Changed by `State` only; its mappings are replaced, never edited."""

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
        self.wanted = 0  # 0 while it is being deleted
        self.deleting = False
        self.weight = 1
        self.priority = 0
        self.listed = False  # False: only a reservation is known of it
        self.placements: Placements = ()  # as its status says, whatever that is
        self.invalid: Placements = ()  # the entries of its status that name no pod of ours or a negative number
        self.resource_version = ""
        self.status: Places = NO_PLACES
        self.status_total = 0
        self.reserved: Places | None = None  # None: nothing decided, or decided to be nowhere
        self.reserved_total = 0
        self.result: Placements = ()  # the reservation as placements, sorted by ordinal
        self.short_since: float | None = None  # since when decisions have left some of it over
        self.rule = ""  # the rule by which the last decision left some over; empty: room is what it waits for
        self.surge = 0  # vreplicas that run twice while a drain moves them
        self.surge_since = 0.0

    @property
    def ruled_out(self) -> bool:
        """Whether a rule, not room, left some over in the last decision."""
        return bool(self.rule)

    def as_vpod(self) -> PlainVPod:
        """The vpod as it was last seen."""
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
    """Ordinals from `target` on are being emptied, before the scale is lowered to it."""

    target: int
    since: float


def differing(old: Places, new: Places) -> Iterable[int]:
    """Ordinals whose vreplicas are not the same in both."""
    if old is new:
        return ()
    if not old:
        return list(new)
    if not new:
        return list(old)
    return {ordinal for ordinal, _ in old.items() ^ new.items()}


def add(counter: Counter[T], name: T, amount: int) -> None:
    """A count of zero is not kept."""
    if amount:
        counter[name] += amount
        if not counter[name]:
            del counter[name]
