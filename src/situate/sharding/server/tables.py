"""Format objects as the columns that kubectl shows, live or archived (meta/v1 `Table`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from situate.archive.operations.object_reader import FoundObject
from situate.objects.values.durations import human_duration
from situate.objects.values.timestamps import BadTime, parse_time
from situate.sharding.server.request import Include

_UNKNOWN: Final = "<unknown>"
_COLUMNS: Final = (
    ("Name", "name", 0, "Name of the object."),
    ("Archived", "", 0, "Time since the object was archived; <live> while the object is in the cluster."),
    ("Successful", "", 0, "Whether the archived object succeeded."),
    ("Age", "", 0, "Time since the creation of the object."),
    ("Reason", "", 1, "Reason of the outcome of the archived object."),
    ("UID", "", 1, "UID of the object. Several objects can have had the same name."),
)


def table(items: Sequence[FoundObject], metadata: Mapping[str, Any], include: Include, now: datetime) -> dict[str, Any]:
    """Return a Table with one row per object."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(metadata),
        "columnDefinitions": [
            {"name": name, "type": "string", "format": form, "description": told, "priority": priority}
            for name, form, priority, told in _COLUMNS
        ],
        "rows": [_row(found, include, now) for found in items],
    }


def _row(found: FoundObject, include: Include, now: datetime) -> dict[str, Any]:
    metadata = found.content.get("metadata") or {}
    record = found.record
    cells = [
        metadata.get("name", ""),
        "<live>" if record is None else _age_text(record.archived_at, now),
        "" if record is None or record.successful is None else str(record.successful).lower(),
        _age_text(_creation_time(metadata), now),
        "" if record is None else record.reason,
        metadata.get("uid", ""),
    ]
    match include:
        case Include.NONE:
            return {"cells": cells}
        case Include.METADATA:
            partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
            return {"cells": cells, "object": partial}
        case Include.OBJECT:
            return {"cells": cells, "object": found.content}


def _creation_time(metadata: Mapping[str, Any]) -> datetime | None:
    try:
        return parse_time(metadata.get("creationTimestamp") or "")
    except BadTime:
        return None


def _age_text(moment: datetime | None, now: datetime) -> str:
    return _UNKNOWN if moment is None else human_duration(int((now - moment).total_seconds()))
