"""Compute the status of a StatefulSet (upstream: stateful_set_control.go, updateStatus and completeRollingUpdate)."""

from __future__ import annotations

from typing import Any

from situate.cluster.controllers.machinery.actions import Patch, uid_patch
from situate.cluster.controllers.machinery.pod_index import PodGroup
from situate.cluster.controllers.machinery.tables import STATEFUL_SETS, Obj
from situate.cluster.controllers.workloads.statefulset.revisions import Revisions, revision_name


def status_patch(
    stateful_set: Obj, group: PodGroup, revisions: Revisions, now: float, replaced: int = 0
) -> Patch | None:
    """Return a patch of the counted status if it changes. `replaced` is the number of outdated pods being deleted."""
    before = stateful_set.get("status") or {}
    after = _counted_status(stateful_set, group, revisions, now)
    after["currentReplicas"] -= replaced
    if all(before.get(field, 0) == value for field, value in after.items()):
        return None
    return uid_patch(STATEFUL_SETS, stateful_set, {"status": after}, "status")


def available_count(group: PodGroup, min_ready_seconds: int, now: float) -> int:
    if not min_ready_seconds:
        return group.ready
    return sum(pod.running_and_ready and pod.is_available(min_ready_seconds, now) for pod in group.pods.values())


def _counted_status(stateful_set: Obj, group: PodGroup, revisions: Revisions, now: float) -> dict[str, Any]:
    spec = stateful_set["spec"]
    current, update = revision_name(revisions.current), revision_name(revisions.update)
    updated = len(group.by_revision.get(update, ()))
    status: dict[str, Any] = {
        "observedGeneration": stateful_set["metadata"].get("generation", 0),
        "replicas": len(group.pods),
        "readyReplicas": group.ready,
        "availableReplicas": available_count(group, spec.get("minReadySeconds", 0), now),
        "currentReplicas": len(group.by_revision.get(current, ())),
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": (stateful_set.get("status") or {}).get("collisionCount", 0),
    }
    rolling = (spec.get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate"
    if rolling and updated == group.ready == len(group.pods) == spec.get("replicas", 1):
        status["currentReplicas"] = updated
        status["currentRevision"] = update
    return status
