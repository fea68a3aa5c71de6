"""Capacity and state of a node from labels, taints, conditions, events and fields.

The table of signals is data (`known_signals`), and configuration extends it. A label with an unknown value says
nothing. Labels that disagree make a node spot. Without a label the capacity is unknown, which never counts as on
demand. Rules: P12, P33.
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
from situate.objects.settings.section import Mistake, format_value
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
"""Fields that a signal of source `field` may name."""
_OWN_TAINTS: Final = ("NoSchedule", "NoExecute")


class DeadlineFrom(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Location of the deadline in a condition's message."""

    message: str
    """A regular expression whose first group is the time."""
    format: Literal["rfc1123", "rfc3339"]

    def mistakes(self) -> Iterable[Mistake]:
        yield from _pattern_mistakes("message", self.message, groups=1)


class Signal(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Entry of the signal table: the signal on a node and its meaning."""

    source: Literal["label", "taint", "condition", "event", "field"]
    key: str
    """Key of the label or taint; type of the condition; reason of the event; path of the field."""
    value: str | None = None
    """None means any; for a condition, its status."""
    effect: str | None = None
    """Effect of a taint; None means any."""
    message: str | None = None
    """A pattern that the condition's message must contain; None means any."""
    capacity: Literal["on-demand", "spot"] | None = None
    """Capacity of a node with the signal. A taint with `spot` marks a permanent spot pool, and the spot class tolerates
    it."""
    state: Literal["ok", "cordoned", "not-ready", "at-risk", "doomed", "dead"] | None = None
    """`ok` means that the signal is harmless."""
    notice_seconds: float | None = None
    """Seconds from the signal to the end of the node; None: unknown."""
    deadline_from: DeadlineFrom | None = None
    absent: Literal["on-demand"] | None = None
    """For a label: capacity of a node without the key. For clouds whose on-demand nodes carry no label."""

    def mistakes(self) -> Iterable[Mistake]:
        if self.capacity is None and self.state is None:
            yield Mistake("state", "", "a state or a capacity", "a signal without both has no effect")
        if self.source == "field" and self.key not in FIELDS:
            yield Mistake("key", format_value(self.key), "one of " + ", ".join(FIELDS))
        if self.absent is not None and self.source != "label":
            yield Mistake("absent", format_value(self.absent), "null, except with source: label")
        if self.deadline_from is not None and self.source != "condition":
            yield Mistake("deadlineFrom", "", "null, except with source: condition")
        if self.message is not None:
            yield from _pattern_mistakes("message", self.message, groups=0)
        if self.notice_seconds is not None and not 0 <= self.notice_seconds <= 86400:
            yield Mistake("noticeSeconds", format_value(self.notice_seconds), "a number from 0 to 86400")


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """An Event about a node."""

    reason: str
    at: float


def occurrences(event: CoreEvent) -> Iterator[NodeEvent]:
    """Yield the first and the last time of an Event, which may be older than the node."""
    last = event.series.last_observed_time if event.series is not None else None
    moments = {event.first_timestamp, event.last_timestamp, event.event_time, last}
    yield from (NodeEvent(event.reason, moment.timestamp()) for moment in moments if moment is not None)


@dataclass(frozen=True, slots=True)
class PresentSignal:
    """A signal of the table on a node."""

    signal: Signal
    since: float | None
    """Time at which it appeared; None if unknown."""
    message: str = ""

    @property
    def name(self) -> str:
        return f"{self.signal.source} {self.signal.key}"


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """Strongest state that a node's signals give."""

    state: NodeState = NodeState.OK
    deadline: float | None = None
    why: str = ""
    cordoned: bool = False


def node_facts(
    node: Node, table: Sequence[Signal], now: float, seen_since: float | None = None, events: Iterable[NodeEvent] = ()
) -> NodeFacts:
    """Read the facts of a node with this table.

    `seen_since` is the time at which its signals were first seen. A notice without a time of its own began then, or
    now.
    """
    seen = tuple(present_signals(node, table, events))
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
    """Return the capacity by the label `node.kubernetes.io/capacity`, else by the table.

    Contradictory labels mean spot; no label means unknown.
    """
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
        return Capacity.UNKNOWN  # an unknown value is unreliable
    if not claims:
        claims = {
            Capacity(signal.absent)
            for signal in table
            if signal.absent is not None and signal.source == "label" and signal.key not in labels
        }
    return Capacity.ON_DEMAND if claims else Capacity.UNKNOWN


def present_signals(node: Node, table: Sequence[Signal], events: Iterable[NodeEvent] = ()) -> Iterator[PresentSignal]:
    """Yield the signals of the table that are present, in the order of the table."""
    created = node.metadata.creation_timestamp
    born = created.timestamp() if created is not None else 0.0
    told = [event for event in events if event.at >= born]  # leaves out Events about an earlier node of the same name
    for signal in table:
        yield from _find_signal(signal, node, told)


def _find_signal(signal: Signal, node: Node, events: Sequence[NodeEvent]) -> Iterator[PresentSignal]:
    match signal.source:
        case "label":
            if _label_matches(signal, node.metadata.labels.get(signal.key)):
                yield PresentSignal(signal, None)
        case "taint":
            for taint in node.spec.taints:
                right_value = signal.value is None or taint.value == signal.value
                if taint.key == signal.key and right_value and signal.effect in (None, taint.effect):
                    yield PresentSignal(signal, _to_seconds(taint.time_added))
        case "condition":
            for condition in node.status.conditions:
                if _condition_matches(signal, condition):
                    yield PresentSignal(signal, _to_seconds(condition.last_transition_time), condition.message)
        case "event":
            times = [event.at for event in events if event.reason == signal.key]
            if times:
                yield PresentSignal(signal, min(times))
        case "field":
            if signal.key == FIELDS[0] and node.metadata.deletion_timestamp is not None:
                yield PresentSignal(signal, _to_seconds(node.metadata.deletion_timestamp))
            if signal.key == FIELDS[1] and node.spec.unschedulable:
                yield PresentSignal(signal, None)


def health_of(seen: Iterable[PresentSignal], now: float, seen_since: float | None = None) -> NodeHealth:
    """Return the strongest state, and the earliest known deadline among its signals."""
    stated = [each for each in seen if each.signal.state is not None]
    strongest = max((_STATES[each.signal.state or "ok"] for each in stated), default=NodeState.OK)
    causes = [each for each in stated if _STATES[each.signal.state or "ok"] == strongest]
    began = seen_since if seen_since is not None else now
    deadlines = [deadline for each in causes if (deadline := _deadline_of(each, began)) is not None]
    if strongest is NodeState.DEAD:
        deadlines = [now]
    return NodeHealth(
        state=strongest,
        deadline=min(deadlines, default=None) if strongest >= NodeState.DOOMED else None,
        why=causes[0].name if causes and strongest is not NodeState.OK else "",
        cordoned=any(each.signal.state == "cordoned" for each in stated),
    )


def deadline_in_message(message: str, source: DeadlineFrom) -> float | None:
    """Return the deadline that a message names; None if it names no readable one."""
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


def _deadline_of(sighting: PresentSignal, began: float) -> float | None:
    signal = sighting.signal
    if signal.deadline_from is not None:
        stated = deadline_in_message(sighting.message, signal.deadline_from)
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


def _to_seconds(moment: datetime | None) -> float | None:
    return moment.timestamp() if moment is not None else None


def _pattern_mistakes(field: str, pattern: str, groups: int) -> Iterator[Mistake]:
    try:
        compiled = re.compile(pattern)
    except re.error as problem:
        yield Mistake(field, format_value(pattern), "a regular expression", str(problem))
        return
    if compiled.groups < groups:
        yield Mistake(
            field, format_value(pattern), "a regular expression with a group around the time, such as (.*? GMT)"
        )
