"""What is said of an object in its `status.conditions`: whether it is assigned, and whether archiving it fails.

A condition costs a write of its own, so it is written when it says something new that will last, and taken back when it
is over. An object that is placed at once never gets one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from situate.objects.values.timestamps import rfc3339
from situate.sharding.model.actions import Write
from situate.sharding.model.decision_inputs import Verdict
from situate.sharding.model.names import ARCHIVE_FAILED, ASSIGNED
from situate.sharding.model.object_view import ObjectView
from situate.sharding.model.patches import guarded_patch

_LONGEST_MESSAGE = 1024
"""Characters; what strategies and archives say may be of any length."""


def verdict_write(view: ObjectView, verdict: Verdict | None, now: datetime) -> Write | None:
    """The write that makes `Assigned` say so; None if it says so, or need not."""
    if verdict is None or verdict.brief:
        return None
    if verdict.assigned and _status(view, ASSIGNED) != "False":
        return None
    return _write(view, ASSIGNED, verdict.assigned, verdict.reason, verdict.message, now)


def archive_failed_write(view: ObjectView, message: str | None, now: datetime) -> Write | None:
    """The write that makes `ArchiveFailed` say so; None if it does. `message` None: it has not failed, or no longer."""
    if message is None and _status(view, ARCHIVE_FAILED) != "True":
        return None
    return _write(view, ARCHIVE_FAILED, message is not None, "ArchiveFailed" if message else "Archived", message, now)


def _write(view: ObjectView, type_: str, holds: bool, reason: str, message: str | None, now: datetime) -> Write | None:
    old = _found(view, type_)
    wanted = {
        "type": type_,
        "status": str(holds),
        "reason": reason,
        "message": (message or "")[:_LONGEST_MESSAGE],
    }
    if {name: old.get(name) for name in wanted} == wanted:
        return None
    since = old.get("lastTransitionTime") if old.get("status") == wanted["status"] else None
    wanted["lastTransitionTime"] = since if isinstance(since, str) else rfc3339(now)
    status = view.content.get("status")
    others = [each for each in _listed(view) if not (isinstance(each, Mapping) and each.get("type") == type_)]
    after = {**(status if isinstance(status, Mapping) else {}), "conditions": [*others, wanted]}
    return Write(guarded_patch(view.content, {**view.content, "status": after}), "status")


def _status(view: ObjectView, type_: str) -> object:
    return _found(view, type_).get("status")


def _found(view: ObjectView, type_: str) -> Mapping[str, Any]:
    for condition in _listed(view):
        if isinstance(condition, Mapping) and condition.get("type") == type_:
            return condition
    return {}


def _listed(view: ObjectView) -> list[Any]:
    status = view.content.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    return conditions if isinstance(conditions, list) else []
