"""Build the status patch of a source: placements and one condition, as the smallest merge patch.

All functions are pure. The controller sends the patch and handles conflicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from situate.vpod.model.vpod import Placement


class ScheduledCondition(msgspec.Struct, frozen=True):
    """The content of the condition."""

    type: str
    scheduled: bool
    reason: str = ""
    """Empty if all vreplicas are placed."""
    message: str = ""


def status_patch(
    content: Mapping[str, Any],
    placements_path: str,
    placements: Iterable[Placement] | None,
    verdict: ScheduledCondition | None,
    now: datetime,
) -> dict[str, Any] | None:
    """Return the merge patch (RFC 7386) for the status subresource, or None if the object is up to date.

    The patch carries the resourceVersion of `content`, so that it fails instead of overwriting an unseen change. With
    `placements` None, the placements are not touched; with `verdict` None, the conditions are not touched. Conditions
    of other types stay as they are, in their order. The transition time changes only with the status.
    """
    changes: dict[str, Any] = {}
    if placements is not None:
        wanted = [placement.to_json() for placement in placements]
        *parents, last = placements_path.split(".")
        present = _value_at(content, [*parents, last])
        if present != wanted and not (not wanted and not present):
            _put_value(changes, parents, last, wanted)
    if verdict is not None:
        conditions = _value_at(content, ["status", "conditions"])
        updated = _with_condition(conditions if isinstance(conditions, list) else [], verdict, now)
        if updated != conditions:
            _put_value(changes, ["status"], "conditions", updated)
    if not changes:
        return None
    metadata = content.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, Mapping) else None
    return {**({"metadata": {"resourceVersion": version}} if version else {}), **changes}


def condition_status(content: Mapping[str, Any], type_: str) -> str:
    """Return `True`, `False` or `Unknown`; an absent condition is Unknown."""
    conditions = _value_at(content, ["status", "conditions"])
    for condition in conditions if isinstance(conditions, list) else []:
        if isinstance(condition, Mapping) and condition.get("type") == type_:
            status = condition.get("status")
            return status if status in ("True", "False") else "Unknown"
    return "Unknown"


def _with_condition(conditions: list[Any], verdict: ScheduledCondition, now: datetime) -> list[Any]:
    status = "True" if verdict.scheduled else "False"
    updated: list[Any] = []
    found = False
    for condition in conditions:
        if not isinstance(condition, Mapping) or condition.get("type") != verdict.type:
            updated.append(condition)
        elif not found:
            found = True
            updated.append(_condition_content(verdict, status, condition, now))
    if not found:
        updated.append(_condition_content(verdict, status, {}, now))
    return updated


def _condition_content(
    verdict: ScheduledCondition, status: str, before: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    since = before.get("lastTransitionTime") if before.get("status") == status else None
    condition = {
        "type": verdict.type,
        "status": status,
        "lastTransitionTime": since or now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    texts = {"reason": verdict.reason, "message": verdict.message}
    return condition | {key: value for key, value in texts.items() if value}


def _value_at(content: object, path: list[str]) -> Any:
    for name in path:
        if type(content) is not dict and not isinstance(content, Mapping):  # the common case needs no abstract class
            return None
        content = content.get(name)
    return content


def _put_value(changes: dict[str, Any], parents: list[str], name: str, value: Any) -> None:
    for parent in parents:
        changes = changes.setdefault(parent, {})
    changes[name] = value
