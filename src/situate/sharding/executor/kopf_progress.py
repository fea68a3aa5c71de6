"""Kopf's progress record in an object's status: attempts of a handler, and the merge of its patch. Pure.

The record is where Kopf's own status storage puts it, `status.kopf.progress.HANDLER`. A handler that moves from Kopf to
an executor, or back, therefore keeps its count of attempts.
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
    """Attempts of one handler on one object, by any executor."""

    started: datetime
    retries: int = 0
    """Number of calls so far."""

    def record(self, message: str) -> dict[str, Any]:
        """Return the record in its stored form."""
        return {"started": rfc3339(self.started), "retries": self.retries, "message": message}


def record_of(content: Content, handler: str) -> Mapping[str, Any]:
    """Return the stored record of a handler's attempts. Empty if there is none, or if another client wrote another
    type.
    """
    found: Any = content
    for step in ("status", "kopf", "progress", handler):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def attempts_of(content: Content, handler: str, now: datetime) -> Attempts:
    """Read the attempts of a handler. A start that cannot be read, or that lies in the future, counts as now."""
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
    """Return the status with this record of the handler. None: remove the record and the fields left empty by that."""
    kept = _mapping(status.get("kopf"))
    progress = {key: value for key, value in _mapping(kept.get("progress")).items() if key != handler}
    if record is not None:
        progress[handler] = dict(record)
    kept = _set_key(kept, "progress", progress)
    return _set_key(status, "kopf", kept)


def merge_patch(document: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a patch by RFC 7386, as Kopf does."""
    result = _mapping(document)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            result[key] = merge_patch(result.get(key), value)
        else:
            result[key] = value
    return result


def _mapping(value: Any) -> dict[str, Any]:
    """Return a copy of a mapping; empty if the value is not a mapping."""
    return dict(value) if isinstance(value, Mapping) else {}


def _set_key(fields: Mapping[str, Any], key: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Set the key, or remove it if its value is empty."""
    rest = {each: found for each, found in fields.items() if each != key}
    return {**rest, key: dict(value)} if value else rest
