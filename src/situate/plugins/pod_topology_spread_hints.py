"""Queueing hints of PodTopologySpread (upstream podtopologyspread/plugin.go)."""

from __future__ import annotations

from collections.abc import Callable

from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.pod.pods import PodInfo
from situate.framework.pod.terms import SpreadConstraint
from situate.objects.kinds.nodes import Node

HardConstraints = Callable[[PodInfo], tuple[SpreadConstraint, ...] | None]
"""Returns the hard constraints of a pending Pod; None if they depend on other objects, so that any event may help."""


def hints(hard: HardConstraints) -> tuple[EventHint, ...]:
    """Return hints for changed Pods, the Pod's own labels and tolerations, and the nodes that count."""

    def after_pod(pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
        """Queue if a Pod of the namespace starts or stops to count."""
        constraints = hard(pod)
        if any(each is not None and each.namespace != pod.namespace for each in (old, new)):
            return Hint.SKIP
        if constraints is None:
            return Hint.QUEUE
        return _queue_if(any(_counts_pod(each, old) != _counts_pod(each, new) for each in constraints))

    def after_own_change(pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:  # noqa: ARG001
        """Queue if the Pod's own count changes, or if its new tolerations let more nodes count."""
        before, after = hard(old), hard(new)
        if before is None or after is None:
            return Hint.QUEUE
        if any(each.honors_taints for each in after) and old.template.tolerations != new.template.tolerations:
            return Hint.QUEUE
        if len(before) != len(after):
            return Hint.QUEUE
        pairs = zip(before, after, strict=True)
        return _queue_if(any(_counts_pod(one, old) != _counts_pod(other, new) or one != other for one, other in pairs))

    def after_node(pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        """Queue if a node with all keys is added or removed, changes its domains, or changes its taints."""
        constraints = hard(pod)
        if constraints is None:
            return Hint.QUEUE
        keys = [each.topology_key for each in constraints]
        before, after = _domains(old, keys), _domains(new, keys)
        if before != after:
            return Hint.QUEUE
        changed = old is not None and new is not None and old.spec.taints != new.spec.taints
        return _queue_if(after is not None and changed)

    return (
        EventHint(Subject.ASSIGNED_POD, Change.ADD | Change.LABELS | Change.DELETE, after_pod),
        EventHint(Subject.POD, Change.LABELS | Change.TOLERATIONS, after_own_change),
        EventHint(Subject.NODE, Change.ADD | Change.DELETE | Change.LABELS | Change.TAINTS, after_node),
    )


def _counts_pod(constraint: SpreadConstraint, pod: PodInfo | None) -> bool:
    return pod is not None and constraint.selector.matches(pod.labels)


def _domains(node: Node | None, keys: list[str]) -> list[str] | None:
    """Return the node's domains; None if it lacks one of the keys."""
    labels = node.metadata.labels if node is not None else {}
    return [labels[key] for key in keys] if all(key in labels for key in keys) and node is not None else None


def _queue_if(helps: bool) -> Hint:
    return Hint.QUEUE if helps else Hint.SKIP
