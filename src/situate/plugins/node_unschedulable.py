"""NodeUnschedulable: places only Pods that tolerate a cordon on cordoned nodes (upstream plugins/nodeunschedulable)."""

from __future__ import annotations

from typing import Any, Final

from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.plugin_api.plugin import Reads
from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import Code
from situate.framework.results.verdict import Verdict, pass_all, refuse
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.nodes import Node, Taint
from situate.plugins.taint_toleration import is_tolerated

_CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable:
    """A Filter plugin that refuses cordoned nodes unless the Pod tolerates the cordon's taint; unresolvable."""

    name = "NodeUnschedulable"
    reads = Reads.NODE
    heeds_requests = False

    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:  # noqa: ARG002
        if is_tolerated(_CORDON, pod.template.tolerations):
            return pass_all(snapshot.count)
        return refuse(snapshot.unschedulable, "node(s) were unschedulable", Code.UNRESOLVABLE)

    def events(self) -> tuple[EventHint, ...]:
        """Return hints for a new or uncordoned node, and for a Pod that now tolerates cordons."""
        return (
            EventHint(Subject.NODE, Change.ADD | Change.TAINTS, _hint_after_node),
            EventHint(Subject.POD, Change.TOLERATIONS, _hint_after_pod),
        )


def _hint_after_node(pod: PodInfo, old: Node | None, new: Node) -> Hint:  # noqa: ARG001
    was_open = old is not None and not old.spec.unschedulable
    return Hint.QUEUE if not new.spec.unschedulable and not was_open else Hint.SKIP


def _hint_after_pod(pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:  # noqa: ARG001
    return Hint.QUEUE if is_tolerated(_CORDON, new.template.tolerations) else Hint.SKIP
