"""What has changed about an object, in the terms that hints understand (upstream pkg/scheduler/framework/events.go)."""

from __future__ import annotations

from situate.framework.events import Change, ClusterEvent, Subject
from situate.framework.pods import PodInfo
from situate.objects.nodes import Node


def node_change(old: Node | None, new: Node) -> Change:
    """None is a node that is new; no flag means that nothing changed that matters to scheduling."""
    if old is None:
        return Change.ADD
    change = Change(0)
    if old.status.allocatable != new.status.allocatable:
        change |= Change.ALLOCATABLE
    if old.metadata.labels != new.metadata.labels:
        change |= Change.LABELS
    if old.spec.taints != new.spec.taints or old.spec.unschedulable != new.spec.unschedulable:
        change |= Change.TAINTS
    if _conditions(old) != _conditions(new):
        change |= Change.CONDITIONS
    if old.metadata.annotations != new.metadata.annotations:
        change |= Change.ANNOTATIONS
    if old.status.declared_features != new.status.declared_features:
        change |= Change.FEATURES
    return change


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def pod_change(old: PodInfo, new: PodInfo) -> Change:
    """What has changed about a pod, waiting or in place."""
    change = Change(0)
    if old.labels != new.labels:
        change |= Change.LABELS
    before, after = old.template.request.amounts, new.template.request.amounts
    if any(after.get(name, 0) < value for name, value in before.items()):
        change |= Change.SCALE_DOWN
    if old.template.tolerations != new.template.tolerations:
        change |= Change.TOLERATIONS
    if old.pod.spec.scheduling_gates and not new.pod.spec.scheduling_gates:
        change |= Change.GATES_ELIMINATED
    return change


def events_of(subject: Subject, change: Change, old: object, new: object) -> tuple[ClusterEvent, ...]:
    """One event with all flags; none if nothing has changed."""
    return (ClusterEvent(subject, change, old, new),) if change else ()
