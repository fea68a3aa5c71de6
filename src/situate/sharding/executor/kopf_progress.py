"""What Kopf keeps in the status of an object: how often a handler was tried, and what its patch changes. Pure.

The record stands where Kopf's own storage in the status has it, `status.kopf.progress.HANDLER`, so a handler that comes
from there, or goes back, is tried as often as its limits say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from situate.objects.values.timestamps import BadTime, parse_time, rfc3339
from situate.sharding.model.field_paths import Content


@dataclass(frozen=True, slots=True)
class Attempts:
    """Of one handler on one object, by whichever executor."""

    started: datetime
    retries: int = 0
    """Calls so far."""

    def record(self, message: str) -> dict[str, Any]:
        """As it is stored."""
        return {"started": rfc3339(self.started), "retries": self.retries, "message": message}


def record_of(content: Content, handler: str) -> Mapping[str, Any]:
    """What is stored of its attempts; empty if nothing is. Anybody may have written anything there."""
    found: Any = content
    for step in ("status", "kopf", "progress", handler):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def attempts_of(content: Content, handler: str, now: datetime) -> Attempts:
    """What cannot be read, or lies in the future, counts as begun now."""
    record = record_of(content, handler)
    retries, text = record.get("retries"), record.get("started")
    try:
        started = parse_time(text) if isinstance(text, str) else now
    except BadTime:
        started = now
    if not isinstance(retries, int) or isinstance(retries, bool):
        retries = 0
    return Attempts(min(started, now), max(0, retries))


def with_record(status: Mapping[str, Any], handler: str, record: Mapping[str, Any] | None) -> dict[str, Any]:
    """The status with that record of the handler's; None: without one, and without what was only there for it."""
    kept = _mapping(status.get("kopf"))
    progress = {key: value for key, value in _mapping(kept.get("progress")).items() if key != handler}
    if record is not None:
        progress[handler] = dict(record)
    kept = _with(kept, "progress", progress)
    return _with(status, "kopf", kept)


def merged(document: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7386: what Kopf's patches are."""
    result = _mapping(document)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            result[key] = merged(result.get(key), value)
        else:
            result[key] = value
    return result


def _mapping(value: Any) -> dict[str, Any]:
    """A copy; empty where somebody has written something else."""
    return dict(value) if isinstance(value, Mapping) else {}


def _with(fields: Mapping[str, Any], key: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Without the key if there is nothing left below it."""
    rest = {each: found for each, found in fields.items() if each != key}
    return {**rest, key: dict(value)} if value else rest
