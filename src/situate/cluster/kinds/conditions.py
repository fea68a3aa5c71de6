"""Set one condition in the list of an object's status."""

from __future__ import annotations

from typing import Any

from situate.cluster.errors.times import timestamp

_Object = dict[str, Any]


def set_condition(status: _Object, condition: _Object, now: float) -> None:
    """Set a condition in place. An equal status keeps the transition time."""
    conditions = status["conditions"] = status.get("conditions") or []
    condition = {**condition, "lastTransitionTime": timestamp(now)}
    for index, present in enumerate(conditions):
        if present["type"] == condition["type"]:
            if present["status"] == condition["status"]:
                condition["lastTransitionTime"] = present.get("lastTransitionTime")
            conditions[index] = condition
            return
    conditions.append(condition)


def set_pod_condition(status: _Object, condition: _Object, now: float) -> None:
    """Set a pod's condition, which also has a probe time (podutil.UpdatePodCondition)."""
    set_condition(status, {"lastProbeTime": None, **condition}, now)
