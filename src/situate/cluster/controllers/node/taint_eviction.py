"""Delete pods that do not tolerate a NoExecute taint of their node, at once or after tolerationSeconds.

Upstream: pkg/controller/tainteviction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from situate.cluster.controllers.machinery.actions import (
    NO_WRITES,
    Delete,
    EventTemplate,
    Patch,
    ReconcileResult,
    sequential_writes,
    uid_patch,
)
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Controller, ControllerContext
from situate.cluster.controllers.machinery.tables import NODES, PODS, Key, Obj
from situate.cluster.controllers.node.pods import conditions_with, disruption_target
from situate.cluster.controllers.node.taints import tolerates


class TaintEvictionController(Controller):
    name = "taint-eviction"
    user = "system:serviceaccount:kube-system:node-controller"
    manager = "taint-eviction-controller"
    watches = frozenset({NODES, PODS})

    def __init__(self, cluster: ControllerContext) -> None:
        self._cluster = cluster
        self._taints: dict[str, tuple[Obj, ...]] = {}
        self._since: dict[Key, float] = {}

    def observe(self, change: Change, now: float) -> Iterator[Key]:  # noqa: ARG002  # the protocol's
        if change.resource == NODES:
            name = change.last.name
            before = self._taints.pop(name, ())
            if change.new is not None:
                taints = (change.object.get("spec") or {}).get("taints") or ()
                found = tuple(taint for taint in taints if taint.get("effect") == "NoExecute")
                if found:
                    self._taints[name] = found
            if self._taints.get(name, ()) != before:
                for pod in self._cluster.pods.pods_on_node(name):
                    yield pod.key
        elif change.resource == PODS:
            if change.pod is None or not change.pod.node:
                self._since.pop(change.key, None)
            elif change.pod.node in self._taints or change.key in self._since:
                yield change.key

    def reconcile(self, key: Key, now: float) -> ReconcileResult:
        facts = self._cluster.pods.pods.get(key)
        taints = self._taints.get(facts.node, ()) if facts else ()
        pod = self._cluster.get(PODS, *key) if taints else None
        if facts is None or pod is None or facts.terminating:
            self._since.pop(key, None)
            return NO_WRITES
        due = self._deletion_time(key, pod, taints, now)
        if due is None or now < due:
            return ReconcileResult(requeue_at=due)
        return sequential_writes(_evict(pod, now))

    def _deletion_time(self, key: Key, pod: Obj, taints: tuple[Obj, ...], now: float) -> float | None:
        """Return when the pod must be deleted; None if it may stay.

        The wait starts when the first of its taints is seen.
        """
        tolerations = pod["spec"].get("tolerations") or ()
        wait = _toleration_seconds(tolerations, taints)
        if wait is None:
            self._since.pop(key, None)
            return None
        return self._since.setdefault(key, now) + wait


def _toleration_seconds(tolerations: Iterable[Mapping[str, Any]], taints: Iterable[Obj]) -> float | None:
    """Return the seconds that the taints are tolerated: 0 if one is not tolerated, None for no limit."""
    limits = []
    for taint in taints:
        used = [toleration for toleration in tolerations if tolerates(toleration, taint)]
        if not used:
            return 0.0
        limits += [max(0.0, seconds) for entry in used if (seconds := entry.get("tolerationSeconds")) is not None]
    return min(limits, default=None)


def _evict(pod: Obj, now: float) -> Iterator[Patch | Delete]:
    metadata = pod["metadata"]
    new = disruption_target("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", now)
    new["observedGeneration"] = metadata.get("generation", 0)
    yield uid_patch(PODS, pod, {"status": {"conditions": conditions_with(pod, new)}}, "status")
    told = EventTemplate(
        pod, "TaintManagerEviction", f"Marking for deletion Pod {metadata['namespace']}/{metadata['name']}"
    )
    yield Delete(PODS, metadata["namespace"], metadata["name"], metadata["uid"], done=told)
