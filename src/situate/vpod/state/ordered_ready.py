"""Which pod keeps a StatefulSet with `podManagementPolicy: OrderedReady` from having those above it.

Its controller creates a pod only when every lower one is running and ready, so one that never gets there blocks the
rest, however many are asked for. Upstream: processCondemned and processReplica in stateful_set_control.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from situate.objects.values.counts import counted
from situate.vpod.model.pod_classes import Cause, PodFacts
from situate.vpod.model.vpod import pod_name
from situate.vpod.state.state import State


@dataclass(frozen=True, slots=True)
class Blocked:
    """A pod that is not ready, and how many pods above it are missing for that."""

    ordinal: int
    pod: str
    cause: Cause
    missing: int

    def __str__(self) -> str:
        kept = counted(self.missing, "pod above it", "pods above it")
        return (
            f"pod {self.pod} is {self.cause} and keeps {kept} from being created (podManagementPolicy OrderedReady): "
            "see why it is not ready, or use Parallel"
        )


def blocking_ordinal(state: State) -> Blocked | None:
    """The lowest pod that is not running and ready, if a pod above it is missing."""
    running = {o: slot.pod for o, slot in state.slots.items() if o < state.replicas and slot.pod is not None}
    first = 0
    while first in running and _in_order(running[first]):
        first += 1
    missing = state.replicas - first - 1 - sum(ordinal > first for ordinal in running)
    if missing <= 0:
        return None
    name = pod_name(state.options.statefulset_name, first)
    return Blocked(first, name, _cause(running.get(first)), missing)


def _in_order(pod: PodFacts) -> bool:
    return pod.phase == "Running" and pod.ready is True and not pod.deleting


def _cause(pod: PodFacts | None) -> Cause:
    if pod is None:
        return Cause.MISSING
    if pod.deleting:
        return Cause.TERMINATING
    if pod.phase in ("Failed", "Succeeded"):
        return Cause.FAILED
    return Cause.NOT_READY if pod.node else Cause.PENDING
