"""Events of both APIs (events.k8s.io/v1 and core/v1 types.go)."""

from __future__ import annotations

from datetime import datetime

from situate.objects.kinds.meta import ObjectMeta
from situate.objects.model import Model


class ObjectReference(Model, frozen=True):
    """The name of an object, or of a field of it."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSeries(Model, frozen=True):
    """Further occurrences of the same event."""

    count: int = 0
    last_observed_time: datetime | None = None
    """None if the reporter sets no time."""


class Event(Model, frozen=True):
    """An `events.k8s.io/v1` Event."""

    metadata: ObjectMeta = ObjectMeta()
    event_time: datetime | None = None
    """None on Events that an older reporter wrote through core/v1."""
    series: EventSeries | None = None
    """None if the event happened once."""
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    """None if only one object is concerned."""
    note: str = ""
    type: str = ""
    """`Normal` or `Warning`."""


class EventSource(Model, frozen=True):
    component: str = ""
    host: str = ""


class CoreEvent(Model, frozen=True):
    """A core/v1 Event."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    """None if only one object is concerned."""
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: datetime | None = None
    """None on Events that were written through events.k8s.io/v1."""
    last_timestamp: datetime | None = None
    """None on Events that were written through events.k8s.io/v1."""
    count: int = 0
    type: str = ""
    """`Normal` or `Warning`."""
    event_time: datetime | None = None
    """None on Events of older reporters."""
    series: EventSeries | None = None
    """None if the event happened once."""
    action: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""
