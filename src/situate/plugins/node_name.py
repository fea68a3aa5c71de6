"""NodeName: places a Pod with `spec.nodeName` only there (upstream plugins/nodename)."""

from __future__ import annotations

from typing import Any

import numpy as np

from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.plugin_api.plugin import Reads
from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import Code
from situate.framework.results.verdict import Verdict, pass_all, refuse
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.nodes import Node


class NodeName:
    """A Filter plugin that refuses every node except the one in `spec.nodeName`; unresolvable."""

    name = "NodeName"
    reads = Reads.NODE
    heeds_requests = False

    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:  # noqa: ARG002
        wanted = pod.pod.spec.node_name
        if not wanted:
            return pass_all(snapshot.count)
        others = np.array([snapshot.name(index) != wanted for index in range(snapshot.count)], dtype=np.bool_)
        return refuse(others, "node(s) didn't match the requested node name", Code.UNRESOLVABLE)

    def events(self) -> tuple[EventHint, ...]:
        return (EventHint(Subject.NODE, Change.ADD, _hint_after_node),)


def _hint_after_node(pod: PodInfo, old: Node | None, new: Node) -> Hint:  # noqa: ARG001
    return Hint.QUEUE if pod.pod.spec.node_name in ("", new.metadata.name) else Hint.SKIP
