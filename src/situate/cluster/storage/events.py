"""Convert between core Events and Events of events.k8s.io (upstream: pkg/apis/events/v1 conversion).

Both are the same objects in two shapes. The store holds the core shape.
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
    """Convert a core Event to the shape of events.k8s.io."""
    for core, other in _RENAMED:
        if core in event:
            event[other] = event.pop(core)
    event["apiVersion"] = "events.k8s.io/v1"
    return event


def to_core_event(event: dict[str, Any]) -> dict[str, Any]:
    """Convert an Event of events.k8s.io to the core shape."""
    for core, other in _RENAMED:
        if other in event:
            event[core] = event.pop(other)
    event["apiVersion"] = "v1"
    event.setdefault("involvedObject", {})
    return event
