"""What a node is and how it fares: capacity and state from labels, taints, conditions, events and fields (P12, P33).

The table of signals is data (`known_signals`), extended by configuration. A label that says nothing known is no claim;
labels that disagree make a node spot; no label leaves it unknown, which never counts as on demand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Literal

import msgspec

from situate.objects.kinds.events import CoreEvent
from situate.objects.kinds.meta import Condition
from situate.objects.kinds.nodes import Node
from situate.objects.settings.section import Mistake, shown
from situate.objects.values.timestamps import BadTime, parse_time
from situate.spot.model.pods_nodes_workloads import (
    CAPACITY_LABEL,
    INSTANCE_TYPE_LABEL,
    ZONE_LABEL,
    Capacity,
    NodeFacts,
    NodeState,
)

_STATES: Final = {str(state): state for state in NodeState}
FIELDS: Final = ("metadata.deletionTimestamp", "spec.unschedulable")
"""What a signal of source `field` may name."""
_OWN_TAINTS: Final = ("NoSchedule", "NoExecute")


class DeadlineFrom(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Where in a condition's message the deadline stands."""

    message: str
    """A regular expression whose first group is the time."""
    format: Literal["rfc1123", "rfc3339"]

    def mistakes(self) -> Iterable[Mistake]:
        yield from _pattern_mistakes("message", self.message, groups=1)


class Signal(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A line of the table: what is seen on a node, and what it means."""

    source: Literal["label", "taint", "condition", "event", "field"]
    key: str
    """Of the label or taint; type of the condition; reason of the event; path of the field."""
    value: str | None = None
    """None means any; of a condition its status."""
    effect: str | None = None
    """Of a taint; None means any."""
    message: str | None = None
    """A pattern that the condition's message must contain; None means any."""
    capacity: Literal["on-demand", "spot"] | None = None
    """What it says of the capacity; a taint with `spot` marks a pool for good: pods of that class tolerate it."""
    state: Literal["ok", "cordoned", "not-ready", "at-risk", "doomed", "dead"] | None = None
    """`ok` says that the signal means nothing."""
    notice_seconds: float | None = None
    """From the signal to the end of the node; None: nobody says."""
    deadline_from: DeadlineFrom | None = None
    absent: Literal["on-demand"] | None = None
    """On a label: what a node without the key is. For clouds whose on-demand nodes carry no label."""

    def mistakes(self) -> Iterable[Mistake]:
        if self.capacity is None and self.state is None:
            yield Mistake("state", "", "a state or a capacity", "a signal has to mean something")
        if self.source == "field" and self.key not in FIELDS:
            yield Mistake("key", shown(self.key), "one of " + ", ".join(FIELDS))
        if self.absent is not None and self.source != "label":
            yield Mistake("absent", shown(self.absent), "only with source label")
        if self.deadline_from is not None and self.source != "condition":
            yield Mistake("deadlineFrom", "", "only with source condition")
        if self.message is not None:
            yield from _pattern_mistakes("message", self.message, groups=0)
        if self.notice_seconds is not None and not 0 <= self.notice_seconds <= 86400:
            yield Mistake("noticeSeconds", shown(self.notice_seconds), "a number from 0 to 86400")


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """An Event about a node."""

    reason: str
    at: float


def occurrences(event: CoreEvent) -> Iterator[NodeEvent]:
    """The first and the last time that an Event tells of; an Event outlives the node that it was about."""
    last = event.series.last_observed_time if event.series is not None else None
    moments = {event.first_timestamp, event.last_timestamp, event.event_time, last}
    yield from (NodeEvent(event.reason, moment.timestamp()) for moment in moments if moment is not None)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A signal of the table, seen on a node."""

    signal: Signal
    since: float | None
    """When it came; None if nothing says so."""
    message: str = ""

    @property
    def name(self) -> str:
        return f"{self.signal.source} {self.signal.key}"


@dataclass(frozen=True, slots=True)
class Health:
    """The strongest state that a node's signals give it."""

    state: NodeState = NodeState.OK
    deadline: float | None = None
    why: str = ""
    cordoned: bool = False


def node_facts(
    node: Node, table: Sequence[Signal], now: float, seen_since: float | None = None, events: Iterable[NodeEvent] = ()
) -> NodeFacts:
    """A node by this table.

    `seen_since` is when its signals were first noticed: a notice that carries no time of its own began then, or now.
    """
    seen = tuple(sightings(node, table, events))
    health = health_of(seen, now, seen_since)
    labels = node.metadata.labels
    instance_type, zone = labels.get(INSTANCE_TYPE_LABEL, ""), labels.get(ZONE_LABEL, "")
    created = node.metadata.creation_timestamp
    cpu = node.status.allocatable.get("cpu")
    return NodeFacts(
        name=node.metadata.name,
        capacity=capacity_of(node, table),
        state=health.state,
        deadline=health.deadline,
        cordoned=health.cordoned,
        why=health.why,
        pool="/".join(filter(None, (instance_type, zone))),
        instance_type=instance_type,
        zone=zone,
        created=created.timestamp() if created is not None else 0.0,
        cpu_milli=cpu.milli_value if cpu is not None else 0,
        tainted=node.spec.unschedulable or any(taint.effect in _OWN_TAINTS for taint in node.spec.taints),
    )


def capacity_of(node: Node, table: Sequence[Signal]) -> Capacity:
    """By the label of the note, else by the table; contradictions are spot, silence is unknown."""
    labels = node.metadata.labels
    claims = {
        Capacity(signal.capacity)
        for signal in table
        if signal.capacity is not None and signal.source == "label" and _label_matches(signal, labels.get(signal.key))
    }
    if Capacity.SPOT in claims:
        return Capacity.SPOT
    known = {signal.value for signal in table if signal.source == "label" and signal.key == CAPACITY_LABEL}
    own = labels.get(CAPACITY_LABEL)
    if own is not None and own not in known and None not in known:
        return Capacity.UNKNOWN  # it says something that nobody knows: not to be relied on
    if not claims:
        claims = {
            Capacity(signal.absent)
            for signal in table
            if signal.absent is not None and signal.source == "label" and signal.key not in labels
        }
    return Capacity.ON_DEMAND if claims else Capacity.UNKNOWN


def sightings(node: Node, table: Sequence[Signal], events: Iterable[NodeEvent] = ()) -> Iterator[Sighting]:
    """The signals of the table that are seen now, in the order of the table."""
    created = node.metadata.creation_timestamp
    born = created.timestamp() if created is not None else 0.0
    told = [event for event in events if event.at >= born]  # not about an earlier node of that name
    for signal in table:
        yield from _seen(signal, node, told)


def _seen(signal: Signal, node: Node, events: Sequence[NodeEvent]) -> Iterator[Sighting]:
    match signal.source:
        case "label":
            if _label_matches(signal, node.metadata.labels.get(signal.key)):
                yield Sighting(signal, None)
        case "taint":
            for taint in node.spec.taints:
                right_value = signal.value is None or taint.value == signal.value
                if taint.key == signal.key and right_value and signal.effect in (None, taint.effect):
                    yield Sighting(signal, _seconds(taint.time_added))
        case "condition":
            for condition in node.status.conditions:
                if _condition_matches(signal, condition):
                    yield Sighting(signal, _seconds(condition.last_transition_time), condition.message)
        case "event":
            times = [event.at for event in events if event.reason == signal.key]
            if times:
                yield Sighting(signal, min(times))
        case "field":
            if signal.key == FIELDS[0] and node.metadata.deletion_timestamp is not None:
                yield Sighting(signal, _seconds(node.metadata.deletion_timestamp))
            if signal.key == FIELDS[1] and node.spec.unschedulable:
                yield Sighting(signal, None)


def health_of(seen: Iterable[Sighting], now: float, seen_since: float | None = None) -> Health:
    """The strongest state, and of its signals the earliest deadline that is known."""
    stated = [each for each in seen if each.signal.state is not None]
    strongest = max((_STATES[each.signal.state or "ok"] for each in stated), default=NodeState.OK)
    causes = [each for each in stated if _STATES[each.signal.state or "ok"] == strongest]
    began = seen_since if seen_since is not None else now
    deadlines = [deadline for each in causes if (deadline := _deadline(each, began)) is not None]
    if strongest is NodeState.DEAD:
        deadlines = [now]
    return Health(
        state=strongest,
        deadline=min(deadlines, default=None) if strongest >= NodeState.DOOMED else None,
        why=causes[0].name if causes and strongest is not NodeState.OK else "",
        cordoned=any(each.signal.state == "cordoned" for each in stated),
    )


def stated_in(message: str, source: DeadlineFrom) -> float | None:
    """The deadline that a message names; None if it names none that can be read."""
    match = re.search(source.message, message[:4096])
    if match is None:
        return None
    try:
        if source.format == "rfc3339":
            return parse_time(match[1]).timestamp()
        moment = parsedate_to_datetime(match[1])
    except (BadTime, ValueError, IndexError, OverflowError):
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _deadline(sighting: Sighting, began: float) -> float | None:
    signal = sighting.signal
    if signal.deadline_from is not None:
        stated = stated_in(sighting.message, signal.deadline_from)
        if stated is not None:
            return stated
    if signal.notice_seconds is None:
        return None
    return (sighting.since if sighting.since is not None else began) + signal.notice_seconds


def _label_matches(signal: Signal, value: str | None) -> bool:
    return value is not None and (signal.value is None or value == signal.value)


def _condition_matches(signal: Signal, condition: Condition) -> bool:
    return (
        condition.type == signal.key
        and (signal.value is None or condition.status == signal.value)
        and (signal.message is None or re.search(signal.message, condition.message[:4096]) is not None)
    )


def _seconds(moment: datetime | None) -> float | None:
    return moment.timestamp() if moment is not None else None


def _pattern_mistakes(field: str, pattern: str, groups: int) -> Iterator[Mistake]:
    try:
        compiled = re.compile(pattern)
    except re.error as problem:
        yield Mistake(field, shown(pattern), "a regular expression", str(problem))
        return
    if compiled.groups < groups:
        yield Mistake(field, shown(pattern), "a regular expression with a group around the time, such as (.*? GMT)")
