"""NodePorts: no two Pods of a node share a host port (upstream plugins/nodeports)."""

from __future__ import annotations

from typing import Any

import numpy as np

from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.plugin_api.plugin import PASSED, SKIPPED, PreFiltered, Reads
from situate.framework.pod.pods import ANY_ADDRESS, HostPort, PodInfo
from situate.framework.results.verdict import Verdict, refuse
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.nodes import Node


class NodePorts:
    """A Filter plugin that refuses nodes where a wanted host port is in use; preemption may free it."""

    name = "NodePorts"
    reads = Reads.LOAD
    heeds_requests = False

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:  # noqa: ARG002
        """Skip for a Pod without host ports."""
        return PASSED if pod.template.host_ports else SKIPPED

    def filter(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Verdict:  # noqa: ARG002
        taken = np.zeros(snapshot.count, dtype=np.bool_)
        for wanted in pod.template.host_ports:
            taken |= snapshot.port_in_use(wanted)
        return refuse(taken, "node(s) didn't have free ports for the requested pod ports")

    def events(self) -> tuple[EventHint, ...]:
        """Return hints for a deleted Pod that releases a wanted port, and for a new node."""
        return (
            EventHint(Subject.ASSIGNED_POD, Change.DELETE, _hint_after_pod),
            EventHint(Subject.NODE, Change.ADD, _hint_after_node),
        )


def ports_clash(one: HostPort, other: HostPort) -> bool:
    """Return whether two host ports of one node exclude each other."""
    return one[1:] == other[1:] and (one[0] == other[0] or ANY_ADDRESS in (one[0], other[0]))


def _hint_after_pod(pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:  # noqa: ARG001
    freed = any(ports_clash(wanted, given) for wanted in pod.template.host_ports for given in old.template.host_ports)
    return Hint.QUEUE if freed else Hint.SKIP


def _hint_after_node(pod: PodInfo, old: Node | None, new: Node) -> Hint:  # noqa: ARG001
    return Hint.QUEUE
