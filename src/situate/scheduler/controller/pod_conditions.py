"""Builds patches of pods' status, if there is a change to write.

Upstream: schedule_one.go updatePod, pkg/api/v1/pod UpdatePodCondition. The API server itself writes that a pod is
scheduled, with the binding, and that it is gated, at its creation.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from situate.objects.kinds.pods import Pod
from situate.objects.values.timestamps import rfc3339

POD_SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
DISRUPTION_TARGET: Final = "DisruptionTarget"


@dataclass(frozen=True, slots=True)
class ConditionChange:
    """A condition that the scheduler wants to write."""

    type: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A change of a pod's status."""

    condition: ConditionChange | None = None
    """None leaves the conditions unchanged."""
    nominate: str | None = None
    """Empty clears a nomination; None leaves it."""

    def combine_with(self, earlier: StatusChange) -> StatusChange:
        """Return both changes in one; the earlier one has not been written yet."""
        return StatusChange(
            self.condition if self.condition is not None else earlier.condition,
            self.nominate if self.nominate is not None else earlier.nominate,
        )


def status_patch(pod: Pod, change: StatusChange, now: datetime, *, fence: bool = False) -> dict[str, Any] | None:
    """Build a strategic merge patch of the status subresource; None if it would change nothing.

    It names the pod's uid, so that it never reaches another pod of the same name. With `fence` it also names the
    resourceVersion of `pod`, and always changes a field. Once such a patch is accepted, the server refuses every
    request that requires an earlier resourceVersion.
    """
    status: dict[str, Any] = {}
    if change.nominate is not None and change.nominate != pod.status.nominated_node_name:
        status["nominatedNodeName"] = change.nominate or None
    if change.condition is not None and (fence or _changes_condition(pod, change.condition)):
        status["conditions"] = [_condition(pod, change.condition, now, fence=fence)]
    if not status:
        return None
    metadata = {"uid": pod.metadata.uid}
    if fence:
        metadata["resourceVersion"] = pod.metadata.resource_version
    return {"metadata": metadata, "status": status}


def _changes_condition(pod: Pod, claim: ConditionChange) -> bool:
    known = pod.condition(claim.type)
    return known is None or (known.status, known.reason, known.message) != (claim.status, claim.reason, claim.message)


def _condition(pod: Pod, claim: ConditionChange, now: datetime, *, fence: bool) -> dict[str, Any]:
    known = pod.condition(claim.type)
    condition: dict[str, Any] = {
        "type": claim.type,
        "status": claim.status,
        "reason": claim.reason,
        "message": claim.message,
    }
    if known is None or known.status != claim.status:
        condition["lastTransitionTime"] = rfc3339(now)
    if fence:
        condition["lastProbeTime"] = rfc3339(now)
    if pod.metadata.generation:
        condition["observedGeneration"] = pod.metadata.generation
    return condition
