"""Core Events and those of events.k8s.io are the same objects in two shapes (upstream: pkg/apis/events/v1 conversion).

They are stored in the core shape.
"""

from __future__ import annotations

from typing import Any, Final

_RENAMED: Final = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)


def from_core_event(event: dict[str, Any]) -> dict[str, Any]:
    """A core Event in the shape of events.k8s.io."""
    for core, other in _RENAMED:
        if core in event:
            event[other] = event.pop(core)
    event["apiVersion"] = "events.k8s.io/v1"
    return event


def to_core_event(event: dict[str, Any]) -> dict[str, Any]:
    """An Event of events.k8s.io in the core shape."""
    for core, other in _RENAMED:
        if other in event:
            event[core] = event.pop(other)
    event["apiVersion"] = "v1"
    event.setdefault("involvedObject", {})
    return event
