"""Find the Pod that blocks a StatefulSet with `podManagementPolicy: OrderedReady`.

The StatefulSet controller creates a Pod only when every lower Pod is running and ready. A Pod that never becomes ready
therefore blocks all Pods above it. Upstream: processCondemned and processReplica in stateful_set_control.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from situate.objects.values.counts import format_count
from situate.vpod.model.pod_classes import Cause, PodFacts
from situate.vpod.model.vpod import pod_name
from situate.vpod.state.state import State


@dataclass(frozen=True, slots=True)
class BlockingPod:
    """A Pod that is not ready, and the number of Pods above it that are missing because of it."""

    ordinal: int
    pod: str
    cause: Cause
    missing: int

    def __str__(self) -> str:
        blocked = format_count(self.missing, "pod above it", "pods above it")
        return (
            f"pod {self.pod} is {self.cause} and blocks the creation of {blocked} (podManagementPolicy OrderedReady): "
            "find out why the pod is not ready, or use Parallel"
        )


def find_blocking_pod(state: State) -> BlockingPod | None:
    """Return the lowest Pod that is not running and ready, if a Pod above it is missing."""
    running = {o: slot.pod for o, slot in state.slots.items() if o < state.replicas and slot.pod is not None}
    first = 0
    while first in running and _is_running_and_ready(running[first]):
        first += 1
    missing = state.replicas - first - 1 - sum(ordinal > first for ordinal in running)
    if missing <= 0:
        return None
    name = pod_name(state.options.statefulset_name, first)
    return BlockingPod(first, name, _blocking_cause(running.get(first)), missing)


def _is_running_and_ready(pod: PodFacts) -> bool:
    return pod.phase == "Running" and pod.ready is True and not pod.deleting


def _blocking_cause(pod: PodFacts | None) -> Cause:
    if pod is None:
        return Cause.MISSING
    if pod.deleting:
        return Cause.TERMINATING
    if pod.phase in ("Failed", "Succeeded"):
        return Cause.FAILED
    return Cause.NOT_READY if pod.node else Cause.PENDING
