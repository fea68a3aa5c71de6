"""Delete pods that no kubelet can end: on missing or out-of-service nodes, and terminating pods never bound.

Upstream: pkg/controller/podgc, which checks every 20 s. Here a pod is checked after a change of the pod or its node.
Finished pods are never deleted (upstream deletes the oldest above 12,500).
"""

from __future__ import annotations

from collections.abc import Iterator

from situate.cluster.controllers.machinery.actions import (
    NO_WRITES,
    Action,
    Delete,
    ReconcileResult,
    sequential_writes,
    uid_patch,
)
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Controller, ControllerContext
from situate.cluster.controllers.machinery.tables import NODES, PODS, Key
from situate.cluster.controllers.node.nodes import OUT_OF_SERVICE
from situate.cluster.controllers.node.pods import PodFacts, condition, conditions_with, disruption_target


class PodGCController(Controller):
    name = "pod-gc"
    user = "system:serviceaccount:kube-system:pod-garbage-collector"
    manager = "pod-garbage-collector"
    watches = frozenset({NODES, PODS})

    def __init__(self, cluster: ControllerContext) -> None:
        self._cluster = cluster
        self._missing: dict[str, float] = {}

    def observe(self, change: Change, now: float) -> Iterator[Key]:
        if change.resource == NODES:
            name = change.last.name
            if change.new is not None:
                self._missing.pop(name, None)
            for pod in self._cluster.pods.pods_on_node(name):
                if change.new is None or pod.terminating:
                    self._record_missing_node(pod.node, now)
                    yield pod.key
        elif change.resource == PODS and change.pod is not None:
            pod = change.pod
            if pod.node:
                self._record_missing_node(pod.node, now)
            if pod.terminating or pod.node in self._missing:
                yield pod.key

    def reconcile(self, key: Key, now: float) -> ReconcileResult:
        pod = self._cluster.pods.pods.get(key)
        if pod is None:
            return NO_WRITES
        if not pod.node:
            return sequential_writes([_force_delete(pod)]) if pod.terminating else NO_WRITES
        missing = self._missing.get(pod.node)
        if missing is not None:
            due = missing + self._cluster.settings.node_quarantine
            if now < due:
                return ReconcileResult(requeue_at=due)
            return sequential_writes(self._fail_and_delete(pod, "PodGC: node no longer exists", now))
        if pod.terminating and self._is_out_of_service(pod.node):
            return sequential_writes(self._fail_and_delete(pod, "PodGC: node is out of service", now))
        return NO_WRITES

    def _record_missing_node(self, node: str, now: float) -> None:
        if self._cluster.store.get(NODES, "", node) is None:
            self._missing.setdefault(node, now)

    def _is_out_of_service(self, name: str) -> bool:
        node = self._cluster.get(NODES, "", name)
        if node is None:
            return False
        ready = condition(node, "Ready")
        tainted = any(taint["key"] == OUT_OF_SERVICE for taint in (node.get("spec") or {}).get("taints") or ())
        return tainted and (ready is None or ready.get("status") != "True")

    def _fail_and_delete(self, pod: PodFacts, message: str, now: float) -> Iterator[Action]:
        """Mark the pod as failed, so that its owner sees the reason, and remove it without grace period."""
        obj = self._cluster.get(PODS, pod.namespace, pod.name)
        if obj is not None and not pod.finished:
            conditions = conditions_with(obj, disruption_target("DeletionByPodGC", message, now))
            yield uid_patch(PODS, obj, {"status": {"phase": "Failed", "conditions": conditions}}, "status")
        yield _force_delete(pod)


def _force_delete(pod: PodFacts) -> Delete:
    return Delete(PODS, pod.namespace, pod.name, pod.uid, grace_seconds=0)
