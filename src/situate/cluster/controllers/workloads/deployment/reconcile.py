"""Reconcile a Deployment: do the first due step, and update the status."""

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
    RecordEvent,
    Refusal,
    sequential_writes,
)
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Controller, ControllerContext
from situate.cluster.controllers.machinery.owners import OwnedObjects, adopt, release
from situate.cluster.controllers.machinery.selectors import Selectors, selector_test
from situate.cluster.controllers.machinery.tables import DEPLOYMENTS, PODS, REPLICA_SETS, Key, Obj
from situate.cluster.controllers.node.pods import controller_of
from situate.cluster.controllers.workloads.deployment.replica_sets import annotation_patch, new_replica_set, size_patch
from situate.cluster.controllers.workloads.deployment.rollout import REVISION, Rollout, build_rollout
from situate.cluster.controllers.workloads.deployment.scaling import is_scaling_event, new_size, old_sizes, scaled_sizes
from situate.cluster.controllers.workloads.deployment.status import (
    PAUSED,
    TIMED_OUT,
    Conditions,
    counted_status,
    find_condition,
    new_condition,
    progress_check_at,
    rollout_status,
    with_condition,
)


class DeploymentController(Controller):
    name = "deployment"
    user = "system:serviceaccount:kube-system:deployment-controller"
    manager = "deployment-controller"
    watches = frozenset({PODS, REPLICA_SETS, DEPLOYMENTS})

    def __init__(self, cluster: ControllerContext) -> None:
        self._cluster = cluster
        self._selectors = Selectors(DEPLOYMENTS)
        self._replica_sets = OwnedObjects()
        self._refusals: dict[Key, tuple[str, str]] = {}

    def observe(self, change: Change, now: float) -> Iterator[Key]:  # noqa: ARG002  # the protocol's
        if change.resource == DEPLOYMENTS:
            self._selectors.apply(change)
            yield change.key
        elif change.resource == REPLICA_SETS:
            yield from self._observe_replica_set(change)
        elif change.pod_before is not None and change.pod is None and change.pod_before.owner_kind == "ReplicaSet":
            # A Recreate rollout waits until the last old pod is gone.
            pod = change.pod_before
            if not self._cluster.pods.pods_of_owner(pod.owner_uid).pods:
                owner = self._cluster.get(REPLICA_SETS, pod.namespace, pod.owner_name)
                reference = controller_of(owner) if owner else None
                if reference is not None and reference["kind"] == "Deployment":
                    yield pod.namespace, reference["name"]

    def reconcile(self, key: Key, now: float) -> ReconcileResult:
        deployment = self._cluster.get(DEPLOYMENTS, *key)
        if deployment is None:
            self._refusals.pop(key, None)
            return NO_WRITES
        if deployment["spec"].get("selector") == {}:
            text = "This deployment is selecting all pods. A non-empty selector is required."
            return sequential_writes([RecordEvent(EventTemplate(deployment, "SelectingAll", text, "Warning"))])
        claims = list(self._ownership_patches(deployment))
        if claims:
            return sequential_writes(claims)
        plan = build_rollout(deployment, self._replica_sets.owned_by(deployment["metadata"]["uid"]).values())
        if "deletionTimestamp" in deployment["metadata"]:
            return sequential_writes(_changed_status(plan, counted_status(plan, now)))
        return self._advance(key, plan, now)

    def handle_refusal(self, key: Key, refusal: Refusal) -> None:
        if isinstance(refusal.action, Create):
            name = refusal.action.body["metadata"]["name"]
            self._refusals[key] = (
                refusal.answer.reason,
                f'Failed to create new replica set "{name}": ' + (refusal.answer.message),
            )

    def _advance(self, key: Key, plan: Rollout, now: float) -> ReconcileResult:
        refused = self._refusals.pop(key, None)
        if refused is not None:
            told = _refusal_patches(plan, *refused, now)
            if told:
                return sequential_writes(told)
        first = _pause_condition(plan, now) or _sync_revision(plan, now)
        if first:
            return sequential_writes(first)
        if plan.paused or is_scaling_event(plan):
            actions: list[Action] = [
                patch for entry, size in scaled_sizes(plan) if (patch := size_patch(plan, entry, size))
            ]
            cleanup = _cleanup(plan) if plan.paused else []
            return sequential_writes([*actions, *cleanup, *_changed_status(plan, counted_status(plan, now))])
        steps = _roll_one_step(plan) if plan.rolling else self._recreate(plan)
        if any(isinstance(step, Create) for step in steps):
            return sequential_writes([*steps, _created_patch(plan, steps, now)])
        status = rollout_status(plan, now)
        if not steps and plan.is_complete(plan.status):
            steps = _cleanup(plan)
        again = progress_check_at(plan, status)
        return sequential_writes(
            [*steps, *_changed_status(plan, status)], again if again is None else max(again, now + 1)
        )

    def _recreate(self, plan: Rollout) -> list[Action]:
        """Return the next step of a Recreate rollout: no new pod starts before the last old one is gone."""
        shrunk: list[Action] = [patch for entry in plan.active_old if (patch := size_patch(plan, entry, 0))]
        if shrunk:
            return shrunk
        if any(entry.count("replicas") for entry in plan.old):
            return []
        for entry in plan.old:
            if any(not pod.finished for pod in self._cluster.pods.pods_of_owner(entry.uid).pods.values()):
                return []
        if plan.new is None:
            return _create_replica_set(plan)
        grown = size_patch(plan, plan.new, plan.replicas) if plan.new.size != plan.replicas else None
        return [grown] if grown else []

    def _ownership_patches(self, deployment: Obj) -> Iterator[Patch]:
        """Adopt ReplicaSets that match the selector, and release those that no longer match."""
        metadata = deployment["metadata"]
        if "deletionTimestamp" in metadata:
            return
        selector = selector_test(deployment["spec"].get("selector"))
        for _, obj in sorted(self._replica_sets.owned_by(metadata["uid"]).items()):
            if not selector(obj["metadata"].get("labels") or {}):
                yield release(REPLICA_SETS, obj, metadata["uid"])
        for _, obj in sorted(self._replica_sets.without_owner(metadata["namespace"]).items()):
            own = obj["metadata"]
            if "deletionTimestamp" not in own and selector(own.get("labels") or {}):
                yield adopt(REPLICA_SETS, obj, deployment)

    def _observe_replica_set(self, change: Change) -> Iterator[Key]:
        namespace = change.key[0]
        owner = self._replica_sets.apply(change)
        if change.new is not None and owner is None:
            for selecting in self._selectors.names_selecting(namespace, change.last.labels):
                yield namespace, selecting
        if owner is not None and owner["kind"] == "Deployment":
            yield namespace, owner["name"]


def _roll_one_step(plan: Rollout) -> list[Action]:
    """Grow the new ReplicaSet if the surge allows it, else shrink the old ones (upstream: rolloutRolling)."""
    if plan.new is None:
        return _create_replica_set(plan)
    size = new_size(plan, plan.new.size)
    if size != plan.new.size:
        grown = size_patch(plan, plan.new, size)
        return [grown] if grown else []
    return [patch for entry, less in old_sizes(plan) if (patch := size_patch(plan, entry, less))]


def _create_replica_set(plan: Rollout) -> list[Action]:
    return [] if plan.new else [new_replica_set(plan)]


def _cleanup(plan: Rollout) -> list[Action]:
    """Delete the oldest empty ReplicaSets beyond the history limit."""
    if plan.history_limit is None:
        return []
    alive = [entry for entry in plan.old if "deletionTimestamp" not in entry.obj["metadata"]]
    alive.sort(key=lambda entry: (entry.revision, entry.age_key))
    actions: list[Action] = []
    for entry in alive[: max(0, len(alive) - plan.history_limit)]:
        observed = entry.obj["metadata"].get("generation", 0) <= entry.count("observedGeneration")
        if observed and not entry.size and not entry.count("replicas"):
            actions.append(Delete(REPLICA_SETS, plan.namespace, entry.name, entry.uid))
    return actions


def _changed_status(plan: Rollout, status: dict[str, Any]) -> list[Action]:
    """Write the status if it changes. Counts of zero may be absent."""
    before = plan.status
    if all(before.get(field) == value or (not value and field not in before) for field, value in status.items()):
        return []
    return [_status_patch(plan, status)]


def _status_patch(plan: Rollout, status: dict[str, Any], revision: str = "") -> Patch:
    """Write the status together with the revision. Otherwise the changed annotation would count as a new generation."""
    metadata: dict[str, Any] = {"uid": plan.deployment["metadata"]["uid"]}
    if revision:
        metadata["annotations"] = {REVISION: revision}
    body = {"metadata": metadata, "status": status}
    return Patch(DEPLOYMENTS, plan.namespace, plan.name, body, "status")


def _pause_condition(plan: Rollout, now: float) -> list[Action]:
    """Set the condition for a paused or resumed rollout; no deadline runs in a pause (checkPausedConditions)."""
    if plan.progress_deadline is None:
        return []
    conditions: Conditions = list(plan.status.get("conditions") or ())
    current = find_condition(conditions, "Progressing")
    reason = current.get("reason") if current else None
    if reason == TIMED_OUT or plan.paused == (reason == PAUSED):
        return []
    if plan.paused:
        new = new_condition("Progressing", "Unknown", PAUSED, "Deployment is paused", now)
    else:
        new = new_condition("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", now)
    return [_status_patch(plan, {"conditions": with_condition(conditions, new)})]


def _sync_revision(plan: Rollout, now: float) -> list[Action]:
    """Update the revision annotations, first on the ReplicaSet and then on the Deployment."""
    new = plan.new
    if new is None:
        return []
    behind = annotation_patch(plan, new)
    if behind is not None:
        return [behind]
    revision = new.annotations.get(REVISION, "")
    conditions: Conditions = list(plan.status.get("conditions") or ())
    if plan.progress_deadline is not None and find_condition(conditions, "Progressing") is None:
        text = f'Found new replica set "{new.name}"'
        condition = new_condition("Progressing", "True", "FoundNewReplicaSet", text, now)
        return [_status_patch(plan, {"conditions": with_condition(conditions, condition)}, revision)]
    if (plan.deployment["metadata"].get("annotations") or {}).get(REVISION) != revision:
        return [_status_patch(plan, {}, revision)]
    return []


def _created_patch(plan: Rollout, steps: Iterable[Action], now: float) -> Patch:
    """Write the revision and the condition to the Deployment after the creation of a ReplicaSet."""
    body = next(step.body for step in steps if isinstance(step, Create))
    conditions: Conditions = list(plan.status.get("conditions") or ())
    if plan.progress_deadline is not None:
        text = f'Created new replica set "{body["metadata"]["name"]}"'
        conditions = with_condition(conditions, new_condition("Progressing", "True", "NewReplicaSetCreated", text, now))
    return _status_patch(plan, {"conditions": conditions}, body["metadata"]["annotations"][REVISION])


def _refusal_patches(plan: Rollout, reason: str, message: str, now: float) -> list[Action]:
    """Increase the collision count if another template uses the name. Show any other refusal as the progress."""
    if plan.new is not None:
        return []
    if reason == "AlreadyExists":
        return [_status_patch(plan, {"collisionCount": plan.status.get("collisionCount", 0) + 1})]
    if plan.progress_deadline is None:
        return []
    conditions: Conditions = list(plan.status.get("conditions") or ())
    failed = new_condition("Progressing", "False", "ReplicaSetCreateError", message, now)
    after = with_condition(conditions, failed)
    return [_status_patch(plan, {"conditions": after})] if after != conditions else []
