"""Build the writes of an object's `status.conditions`: whether it is assigned, and whether its archiving fails.

A condition costs a write of its own. It is therefore written only for a new state that lasts, and reset when the state
ends. An object that is assigned at once never gets a condition.
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
"""Maximum number of characters; messages of strategies and archives may have any length."""


def verdict_write(view: ObjectView, verdict: Verdict | None, now: datetime) -> Write | None:
    """Return the write that sets `Assigned` to the verdict; None if it is set already or need not be set."""
    if verdict is None or verdict.brief:
        return None
    if verdict.assigned and _condition_status(view, ASSIGNED) != "False":
        return None
    return _condition_write(view, ASSIGNED, verdict.assigned, verdict.reason, verdict.message, now)


def archive_failed_write(view: ObjectView, message: str | None, now: datetime) -> Write | None:
    """Return the write that sets `ArchiveFailed`; None if it is set already. `message` None: no failure any more."""
    if message is None and _condition_status(view, ARCHIVE_FAILED) != "True":
        return None
    return _condition_write(
        view, ARCHIVE_FAILED, message is not None, "ArchiveFailed" if message else "Archived", message, now
    )


def _condition_write(
    view: ObjectView, type_: str, holds: bool, reason: str, message: str | None, now: datetime
) -> Write | None:
    old = _find_condition(view, type_)
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
    others = [each for each in _list_conditions(view) if not (isinstance(each, Mapping) and each.get("type") == type_)]
    after = {**(status if isinstance(status, Mapping) else {}), "conditions": [*others, wanted]}
    return Write(guarded_patch(view.content, {**view.content, "status": after}), "status")


def _condition_status(view: ObjectView, type_: str) -> object:
    return _find_condition(view, type_).get("status")


def _find_condition(view: ObjectView, type_: str) -> Mapping[str, Any]:
    for condition in _list_conditions(view):
        if isinstance(condition, Mapping) and condition.get("type") == type_:
            return condition
    return {}


def _list_conditions(view: ObjectView) -> list[Any]:
    status = view.content.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    return conditions if isinstance(conditions, list) else []
