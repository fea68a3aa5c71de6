"""ReplicaSet controller: keep the requested number of active pods (upstream: pkg/controller/replicaset)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from situate.cluster.controllers.machinery.actions import (
    NO_WRITES,
    Action,
    Create,
    Delete,
    EventTemplate,
    Patch,
    ReconcileResult,
    Refusal,
    sequential_writes,
    slow_start_batches,
    uid_patch,
)
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Controller, ControllerContext
from situate.cluster.controllers.machinery.owners import PodOwnership
from situate.cluster.controllers.machinery.pod_index import PodGroup
from situate.cluster.controllers.machinery.selectors import selector_test
from situate.cluster.controllers.machinery.tables import PODS, REPLICA_SETS, Key, Obj
from situate.cluster.controllers.node.pods import PodFacts, condition, controller_of, next_availability
from situate.cluster.controllers.workloads.templates import pod_from_template
from situate.cluster.controllers.workloads.victims import pods_to_delete
from situate.cluster.errors.times import timestamp

BURST = 500
"""Largest number of pods created or deleted in one reconcile."""


class ReplicaSetController(Controller):
    name = "replicaset"
    user = "system:serviceaccount:kube-system:replicaset-controller"
    manager = "replicaset-controller"
    watches = frozenset({PODS, REPLICA_SETS})

    def __init__(self, cluster: ControllerContext) -> None:
        self._cluster = cluster
        self._claims = PodOwnership(cluster, REPLICA_SETS, "ReplicaSet")
        self._refusals: dict[Key, str] = {}
        self._siblings: dict[str, set[str]] = {}

    def observe(self, change: Change, now: float) -> Iterable[Key]:  # noqa: ARG002  # the protocol's
        if change.resource == REPLICA_SETS:
            self._record_sibling(change)
        return self._claims.observe(change)

    def reconcile(self, key: Key, now: float) -> ReconcileResult:
        replica_set = self._cluster.get(REPLICA_SETS, *key)
        if replica_set is None:
            self._refusals.pop(key, None)
            return NO_WRITES
        selector = selector_test(replica_set["spec"].get("selector"))
        claims = self._claims.ownership_patches(replica_set, selector)
        if claims:
            return sequential_writes(claims)
        group = self._cluster.pods.pods_of_owner(replica_set["metadata"]["uid"])
        refusal = self._refusals.pop(key, None)
        work: tuple[tuple[Action, ...], ...] = ()
        if "deletionTimestamp" not in replica_set["metadata"]:
            work = self._scale_batches(replica_set, group, now)
        status = _status(replica_set, group, refusal, now)
        active = (pod for pod in group.pods.values() if pod.active)
        again = next_availability(active, replica_set["spec"].get("minReadySeconds", 0), now)
        return ReconcileResult(work, again, (status,) if status else ())

    def handle_refusal(self, key: Key, refusal: Refusal) -> None:
        if isinstance(refusal.action, Create | Delete):
            self._refusals[key] = refusal.answer.message

    def _scale_batches(self, replica_set: Obj, group: PodGroup, now: float) -> tuple[tuple[Action, ...], ...]:
        missing = replica_set["spec"].get("replicas", 1) - group.active
        if missing > 0:
            return slow_start_batches(_create(replica_set) for _ in range(min(missing, BURST)))
        if missing < 0:
            active = [pod for pod in group.pods.values() if pod.active]
            chosen = pods_to_delete(active, self._related_pods(replica_set), min(-missing, BURST), now)
            return (tuple(_delete(replica_set, pod) for pod in chosen),)
        return ()

    def _related_pods(self, replica_set: Obj) -> Iterator[PodFacts]:
        """Yield the pods of all ReplicaSets with the same controller, if any (upstream getIndirectlyRelatedPods)."""
        owner = controller_of(replica_set)
        for uid in sorted(self._siblings.get(owner["uid"], ())) if owner else ():
            yield from self._cluster.pods.pods_of_owner(uid).pods.values()

    def _record_sibling(self, change: Change) -> None:
        owner = controller_of(change.object)
        if owner is None:
            return
        siblings = self._siblings.setdefault(owner["uid"], set())
        if change.new is not None:
            siblings.add(change.last.uid)
            return
        siblings.discard(change.last.uid)
        if not siblings:
            del self._siblings[owner["uid"]]


def _create(replica_set: Obj) -> Create:
    return Create(
        PODS,
        replica_set["metadata"]["namespace"],
        pod_from_template(replica_set["spec"]["template"], replica_set),
        done=EventTemplate(replica_set, "SuccessfulCreate", "Created pod: {name}"),
        failed=EventTemplate(replica_set, "FailedCreate", "Error creating: {error}", "Warning"),
    )


def _delete(replica_set: Obj, pod: PodFacts) -> Delete:
    return Delete(
        PODS,
        pod.namespace,
        pod.name,
        pod.uid,
        done=EventTemplate(replica_set, "SuccessfulDelete", f"Deleted pod: {pod.name}"),
        failed=EventTemplate(replica_set, "FailedDelete", "Error deleting: {error}", "Warning"),
    )


def _status(replica_set: Obj, group: PodGroup, refusal: str | None, now: float) -> Patch | None:
    """Return a patch of the counted status if it differs from the stored one (upstream: replica_set_utils.go)."""
    spec = replica_set["spec"]
    wanted = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    before = replica_set.get("status") or {}
    after: dict[str, Any] = {
        "replicas": group.active,
        "fullyLabeledReplicas": sum(n for labels, n in group.active_labels.items() if wanted.items() <= labels),
        "readyReplicas": group.active_ready,
        "availableReplicas": _available_count(group, spec.get("minReadySeconds", 0), now),
        "terminatingReplicas": group.terminating,
    }
    conditions = _conditions(replica_set, group, refusal, now)
    same = all(before.get(field, 0) == count for field, count in after.items()) and "terminatingReplicas" in before
    generation = replica_set["metadata"].get("generation", 0)
    if same and before.get("observedGeneration", 0) == generation and before.get("conditions", []) == conditions:
        return None
    after["observedGeneration"] = generation
    after["conditions"] = conditions or None
    return uid_patch(REPLICA_SETS, replica_set, {"status": after}, "status")


def _conditions(replica_set: Obj, group: PodGroup, refusal: str | None, now: float) -> list[Obj]:
    conditions = list((replica_set.get("status") or {}).get("conditions") or ())
    failing = condition(replica_set, "ReplicaFailure")
    if refusal is None:
        return [entry for entry in conditions if entry is not failing and entry.get("type") != "ReplicaFailure"]
    if failing is not None:
        return conditions
    reason = "FailedCreate" if group.active < replica_set["spec"].get("replicas", 1) else "FailedDelete"
    new = {"type": "ReplicaFailure", "status": "True", "reason": reason, "message": refusal}
    return [*conditions, {**new, "lastTransitionTime": timestamp(now)}]


def _available_count(group: PodGroup, min_ready_seconds: int, now: float) -> int:
    if not min_ready_seconds:
        return group.active_ready
    return sum(pod.active and pod.is_available(min_ready_seconds, now) for pod in group.pods.values())
