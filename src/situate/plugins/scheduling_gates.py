"""SchedulingGates: a Pod with gates is not ready to be scheduled (KEP-3521; upstream plugins/schedulinggates)."""

from __future__ import annotations

from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import SUCCESS, Status, unresolvable_status


class SchedulingGates:
    """A PreEnqueue plugin that gates a Pod until its last scheduling gate is removed."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status:
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return SUCCESS
        return unresolvable_status(f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]")

    def events(self) -> tuple[EventHint, ...]:
        return (EventHint(Subject.POD, Change.GATES_ELIMINATED, _hint_after_pod),)


def _hint_after_pod(pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:  # noqa: ARG001
    return Hint.SKIP if new.pod.spec.scheduling_gates else Hint.QUEUE
