"""Compute the status of a Deployment: counts, availability and progress (upstream: progress.go, sync.go)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from situate.cluster.controllers.machinery.tables import Obj
from situate.cluster.controllers.workloads.deployment.rollout import Rollout, total_replicas
from situate.cluster.errors.times import parse_seconds as parse_time
from situate.cluster.errors.times import timestamp

Conditions: TypeAlias = list[dict[str, Any]]

NEW_AVAILABLE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"


def find_condition(conditions: Iterable[Mapping[str, Any]], kind: str) -> Mapping[str, Any] | None:
    return next((entry for entry in conditions if entry.get("type") == kind), None)


def new_condition(kind: str, status: str, reason: str, message: str, now: float) -> dict[str, Any]:
    at = timestamp(now)
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": at,
        "lastTransitionTime": at,
        "reason": reason,
        "message": message,
    }


def with_condition(conditions: Conditions, new: dict[str, Any]) -> Conditions:
    """Set a condition. Equal status and reason change nothing, and an equal status keeps the transition time."""
    current = find_condition(conditions, new["type"])
    if current is not None:
        if (current.get("status"), current.get("reason")) == (new["status"], new["reason"]):
            return conditions
        if current.get("status") == new["status"]:
            new = {**new, "lastTransitionTime": current.get("lastTransitionTime")}
    return [*without_condition(conditions, new["type"]), new]


def without_condition(conditions: Conditions, kind: str) -> Conditions:
    return [entry for entry in conditions if entry.get("type") != kind]


def counted_status(plan: Rollout, now: float) -> dict[str, Any]:
    """Return the counts and the condition Available. Other conditions stay (upstream: calculateStatus)."""
    available = sum(entry.count("availableReplicas") for entry in plan.replica_sets)
    status: dict[str, Any] = {
        "observedGeneration": plan.deployment["metadata"].get("generation", 0),
        "replicas": sum(entry.count("replicas") for entry in plan.replica_sets),
        "updatedReplicas": plan.new.count("replicas") if plan.new else 0,
        "readyReplicas": sum(entry.count("readyReplicas") for entry in plan.replica_sets),
        "availableReplicas": available,
        "unavailableReplicas": max(0, total_replicas(plan.replica_sets) - available),
        "terminatingReplicas": sum(entry.count("terminatingReplicas") for entry in plan.replica_sets),
    }
    if "collisionCount" in plan.status:
        status["collisionCount"] = plan.status["collisionCount"]
    if available >= plan.replicas - plan.max_unavailable:
        text = "Deployment has minimum availability."
        availability = new_condition("Available", "True", "MinimumReplicasAvailable", text, now)
    else:
        text = "Deployment does not have minimum availability."
        availability = new_condition("Available", "False", "MinimumReplicasUnavailable", text, now)
    status["conditions"] = with_condition(list(plan.status.get("conditions") or ()), availability)
    return status


def rollout_status(plan: Rollout, now: float) -> dict[str, Any]:
    """Return the status during a rollout and after it (upstream: syncRolloutStatus)."""
    status = counted_status(plan, now)
    conditions: Conditions = status["conditions"]
    current = find_condition(conditions, "Progressing")
    if plan.progress_deadline is None:
        conditions = without_condition(conditions, "Progressing")
    elif not _stays_complete(status, current):
        conditions = _progress_conditions(plan, status, current, now)
    failure = _replica_failure(plan, now)
    if failure is not None:
        conditions = with_condition(conditions, failure)
    else:
        conditions = without_condition(conditions, "ReplicaFailure")
    status["conditions"] = conditions
    return status


def progress_check_at(plan: Rollout, status: Obj) -> float | None:
    """Return when to check the progress deadline again (upstream: requeueStuckDeployment)."""
    current = find_condition(status.get("conditions") or (), "Progressing")
    if plan.progress_deadline is None or current is None or plan.is_complete(status):
        return None
    if current.get("reason") == TIMED_OUT:
        return None
    return parse_time(current["lastUpdateTime"]) + plan.progress_deadline + 1


def _stays_complete(status: Obj, current: Mapping[str, Any] | None) -> bool:
    if current is None or current.get("reason") != NEW_AVAILABLE:
        return False
    return bool(status["replicas"] == status["updatedReplicas"])


def _progress_conditions(plan: Rollout, status: Obj, current: Mapping[str, Any] | None, now: float) -> Conditions:
    conditions: Conditions = status["conditions"]
    subject = f'ReplicaSet "{plan.new.name}"' if plan.new else f'Deployment "{plan.name}"'
    if plan.is_complete(status):
        text = f"{subject} has successfully progressed."
        return with_condition(conditions, new_condition("Progressing", "True", NEW_AVAILABLE, text, now))
    if _has_progressed(plan.status, status):
        text = f"{subject} is progressing."
        new = new_condition("Progressing", "True", "ReplicaSetUpdated", text, now)
        if current is not None and current.get("status") == "True":
            new["lastTransitionTime"] = current.get("lastTransitionTime")
        return [*without_condition(conditions, "Progressing"), new]
    if _has_timed_out(plan, current, now):
        text = f"{subject} has timed out progressing."
        return with_condition(conditions, new_condition("Progressing", "False", TIMED_OUT, text, now))
    return conditions


def _has_progressed(before: Obj, after: Obj) -> bool:
    def old(status: Obj) -> int:
        return status.get("replicas", 0) - status.get("updatedReplicas", 0)  # type: ignore[no-any-return]  # JSON

    rising = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old(after) < old(before) or any(after.get(field, 0) > before.get(field, 0) for field in rising)


def _has_timed_out(plan: Rollout, current: Mapping[str, Any] | None, now: float) -> bool:
    if current is None or current.get("reason") == NEW_AVAILABLE or plan.progress_deadline is None:
        return False
    return current.get("reason") == TIMED_OUT or parse_time(current["lastUpdateTime"]) + plan.progress_deadline < now


def _replica_failure(plan: Rollout, now: float) -> dict[str, Any] | None:
    first = [plan.new] if plan.new else []
    for entry in [*first, *plan.replica_sets]:
        failure = find_condition(entry.status.get("conditions") or (), "ReplicaFailure")
        if failure is not None:
            at = failure.get("lastTransitionTime", timestamp(now))
            new = new_condition("ReplicaFailure", failure["status"], failure["reason"], failure["message"], now)
            return {**new, "lastTransitionTime": at, "lastUpdateTime": at}
    return None
