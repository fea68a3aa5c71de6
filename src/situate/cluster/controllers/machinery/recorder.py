"""Record Events of controllers: count repeated ones, combine similar ones, limit their rate.

Upstream: client-go's EventCorrelator with its defaults. A source may write 25 Events about an object, then one every
five minutes. From the tenth similar Event within ten minutes on, Events are combined under a common message.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TypeVar

from situate.cluster.controllers.machinery.actions import Create, EventTemplate, Patch
from situate.cluster.controllers.machinery.tables import EVENTS, Obj
from situate.cluster.errors.times import timestamp

_T = TypeVar("_T")
_BURST = 25
_REFILL_PER_SECOND = 1 / 300
_MAX_SIMILAR = 10
_SIMILAR_INTERVAL_S = 600.0
_MAX_REMEMBERED = 4096


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


@dataclass(slots=True)
class _SimilarEvents:
    messages: set[str]
    at: float


@dataclass(slots=True)
class _WrittenEvent:
    name: str
    count: int


class Recorder:
    """Converter from notes to writes of Events. It remembers the 4,096 most recent sources, kinds and Events."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[str, ...], _Bucket] = OrderedDict()
        self._similar: OrderedDict[tuple[str, ...], _SimilarEvents] = OrderedDict()
        self._written: OrderedDict[tuple[str, ...], _WrittenEvent] = OrderedDict()
        self._names = 0

    def event_write(
        self, note: EventTemplate, component: str, now: float, error: str = "", name: str = ""
    ) -> Create | Patch | None:
        """Return the write that records the note, or None if the source exceeds its rate."""
        metadata = note.regarding["metadata"]
        message = note.message.replace("{error}", error).replace("{name}", name)
        identity = (metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""))
        source = (component, note.regarding.get("kind", ""), *identity)
        joined = self._is_combined(source, note, message, now)
        if not self._take_token(source, now):
            return None
        # Combined Events are one Event, even if their messages differ.
        key = (*source, note.type, note.reason, "" if joined else message)
        if joined:
            message = f"(combined from similar events): {message}"
        namespace = metadata.get("namespace") or "default"
        known = self._written.get(key)
        if known is not None:
            self._written.move_to_end(key)
            known.count += 1
            body = {"count": known.count, "lastTimestamp": timestamp(now), "message": message}
            return Patch(EVENTS, namespace, known.name, body)
        self._names += 1
        own = f"{metadata['name']}.{int(now * 1e9) + self._names:x}"
        self._remember(self._written, key, _WrittenEvent(own, 1))
        return Create(EVENTS, namespace, _event_body(note, message, component, namespace, own, now))

    def forget(self, name: str) -> None:
        """Forget an Event that was deleted or could not be written. The next similar one is a new Event."""
        for key, written in list(self._written.items()):
            if written.name == name:
                del self._written[key]

    def _take_token(self, source: tuple[str, ...], now: float) -> bool:
        bucket = self._buckets.get(source)
        if bucket is None:
            self._remember(self._buckets, source, _Bucket(_BURST - 1, now))
            return True
        self._buckets.move_to_end(source)
        bucket.tokens = min(_BURST, bucket.tokens + (now - bucket.at) * _REFILL_PER_SECOND)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _is_combined(self, source: tuple[str, ...], note: EventTemplate, message: str, now: float) -> bool:
        key = (*source, note.type, note.reason)
        similar = self._similar.get(key)
        if similar is None or now - similar.at > _SIMILAR_INTERVAL_S:
            similar = _SimilarEvents(set(), now)
            self._remember(self._similar, key, similar)
        self._similar.move_to_end(key)
        similar.at = now
        similar.messages.add(message)
        if len(similar.messages) < _MAX_SIMILAR:
            return False
        similar.messages.pop()
        return True

    @staticmethod
    def _remember(memory: OrderedDict[tuple[str, ...], _T], key: tuple[str, ...], value: _T) -> None:
        memory[key] = value
        memory.move_to_end(key)
        if len(memory) > _MAX_REMEMBERED:
            memory.popitem(last=False)


def _event_body(note: EventTemplate, message: str, component: str, namespace: str, name: str, now: float) -> Obj:
    regarding = note.regarding
    metadata = regarding["metadata"]
    involved = {
        "kind": regarding.get("kind"),
        "namespace": metadata.get("namespace"),
        "name": metadata["name"],
        "uid": metadata.get("uid"),
        "apiVersion": regarding.get("apiVersion"),
        "resourceVersion": metadata.get("resourceVersion"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {field: value for field, value in involved.items() if value},
        "reason": note.reason,
        "message": message,
        "type": note.type,
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": timestamp(now),
        "lastTimestamp": timestamp(now),
        "count": 1,
    }
