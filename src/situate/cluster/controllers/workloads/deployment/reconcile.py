"""Reconcile a Deployment: do the first due step, and update the status."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from situate.cluster.controllers.machinery.actions import (
    NOTHING,
    Action,
    Create,
    Delete,
    Note,
    Outcome,
    Patch,
    Record,
    Refusal,
    in_order,
)
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Cluster
from situate.cluster.controllers.machinery.owners import adopt, release
from situate.cluster.controllers.machinery.selectors import Selectors, label_selector
from situate.cluster.controllers.machinery.tables import DEPLOYMENTS, PODS, REPLICA_SETS, Key, Obj
from situate.cluster.controllers.node.pods import controller_of
from situate.cluster.controllers.workloads.deployment.replica_sets import new_replica_set, resized, synced_annotations
from situate.cluster.controllers.workloads.deployment.rollout import REVISION, Rollout, rollout
from situate.cluster.controllers.workloads.deployment.scaling import is_scaling_event, new_size, old_sizes, scaled_sizes
from situate.cluster.controllers.workloads.deployment.status import (
    PAUSED,
    TIMED_OUT,
    Conditions,
    counted_status,
    find,
    new_condition,
    progress_check_at,
    rollout_status,
    with_condition,
)


class DeploymentController:
    name = "deployment"
    user = "system:serviceaccount:kube-system:deployment-controller"
    manager = "deployment-controller"
    watches = frozenset({PODS, REPLICA_SETS, DEPLOYMENTS})

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._selectors = Selectors(DEPLOYMENTS)
        self._owned: dict[str, set[str]] = {}
        self._loose: dict[str, set[str]] = {}
        self._owner: dict[Key, str] = {}
        self._refused: dict[Key, tuple[str, str]] = {}

    def observe(self, change: Change, now: float) -> Iterator[Key]:  # noqa: ARG002  # the protocol's
        if change.resource == DEPLOYMENTS:
            self._selectors.apply(change)
            yield change.key
        elif change.resource == REPLICA_SETS:
            yield from self._replica_set(change)
        elif change.pod_before is not None and change.pod is None and change.pod_before.owner_kind == "ReplicaSet":
            # A Recreate rollout waits until the last old pod is gone.
            pod = change.pod_before
            if not self._cluster.pods.owned(pod.owner_uid).pods:
                owner = self._cluster.get(REPLICA_SETS, pod.namespace, pod.owner_name)
                reference = controller_of(owner) if owner else None
                if reference is not None and reference["kind"] == "Deployment":
                    yield pod.namespace, reference["name"]

    def reconcile(self, key: Key, now: float) -> Outcome:
        deployment = self._cluster.get(DEPLOYMENTS, *key)
        if deployment is None:
            self._refused.pop(key, None)
            return NOTHING
        if deployment["spec"].get("selector") == {}:
            text = "This deployment is selecting all pods. A non-empty selector is required."
            return in_order([Record(Note(deployment, "SelectingAll", text, "Warning"))])
        claims = list(self._claims(deployment))
        if claims:
            return in_order(claims)
        plan = rollout(deployment, self._replica_sets(deployment))
        if "deletionTimestamp" in deployment["metadata"]:
            return in_order(_status(plan, counted_status(plan, now)))
        return self._advance(key, plan, now)

    def refused(self, key: Key, refusal: Refusal) -> None:
        if isinstance(refusal.action, Create):
            name = refusal.action.body["metadata"]["name"]
            self._refused[key] = (
                refusal.answer.reason,
                f'Failed to create new replica set "{name}": ' + (refusal.answer.message),
            )

    def _advance(self, key: Key, plan: Rollout, now: float) -> Outcome:
        refused = self._refused.pop(key, None)
        if refused is not None:
            told = _after_refusal(plan, *refused, now)
            if told:
                return in_order(told)
        first = _pause_condition(plan, now) or _synced(plan, now)
        if first:
            return in_order(first)
        if plan.paused or is_scaling_event(plan):
            actions: list[Action] = [
                patch for entry, size in scaled_sizes(plan) if (patch := resized(plan, entry, size))
            ]
            cleanup = _cleanup(plan) if plan.paused else []
            return in_order([*actions, *cleanup, *_status(plan, counted_status(plan, now))])
        steps = _rolling(plan) if plan.rolling else self._recreate(plan)
        if any(isinstance(step, Create) for step in steps):
            return in_order([*steps, _created(plan, steps, now)])
        status = rollout_status(plan, now)
        if not steps and plan.complete(plan.status):
            steps = _cleanup(plan)
        again = progress_check_at(plan, status)
        return in_order([*steps, *_status(plan, status)], again if again is None else max(again, now + 1))

    def _recreate(self, plan: Rollout) -> list[Action]:
        """Return the next step of a Recreate rollout: no new pod starts before the last old one is gone."""
        shrunk: list[Action] = [patch for entry in plan.active_old if (patch := resized(plan, entry, 0))]
        if shrunk:
            return shrunk
        if any(entry.count("replicas") for entry in plan.old):
            return []
        for entry in plan.old:
            if any(not pod.finished for pod in self._cluster.pods.owned(entry.uid).pods.values()):
                return []
        if plan.new is None:
            return _creation(plan)
        grown = resized(plan, plan.new, plan.replicas) if plan.new.size != plan.replicas else None
        return [grown] if grown else []

    def _replica_sets(self, deployment: Obj) -> Iterable[Obj]:
        metadata = deployment["metadata"]
        for name in sorted(self._owned.get(metadata["uid"], ())):
            obj = self._cluster.get(REPLICA_SETS, metadata["namespace"], name)
            if obj is not None:
                yield obj

    def _claims(self, deployment: Obj) -> Iterator[Patch]:
        """Adopt ReplicaSets that match the selector, and release those that no longer match."""
        metadata = deployment["metadata"]
        if "deletionTimestamp" in metadata:
            return
        selector = label_selector(deployment["spec"].get("selector"))
        for obj in self._replica_sets(deployment):
            if not selector(obj["metadata"].get("labels") or {}):
                yield release(REPLICA_SETS, obj, metadata["uid"])
        for name in sorted(self._loose.get(metadata["namespace"], ())):
            stored = self._cluster.store.get(REPLICA_SETS, metadata["namespace"], name)
            if stored is not None and not stored.deleting and selector(stored.labels):
                yield adopt(REPLICA_SETS, stored.object(), deployment)

    def _replica_set(self, change: Change) -> Iterator[Key]:
        namespace, name = change.key
        before = self._owner.pop(change.key, None)
        if before:
            self._owned[before].discard(name)
        self._loose.get(namespace, set()).discard(name)
        owner = controller_of(change.object)
        if change.new is not None and owner is None:
            self._loose.setdefault(namespace, set()).add(name)
            for selecting in self._selectors.selecting(namespace, change.last.labels):
                yield namespace, selecting
        elif change.new is not None and owner is not None:
            self._owner[change.key] = owner["uid"]
            self._owned.setdefault(owner["uid"], set()).add(name)
        if owner is not None and owner["kind"] == "Deployment":
            yield namespace, owner["name"]


def _rolling(plan: Rollout) -> list[Action]:
    """Grow the new ReplicaSet if the surge allows it, else shrink the old ones (upstream: rolloutRolling)."""
    if plan.new is None:
        return _creation(plan)
    size = new_size(plan, plan.new.size)
    if size != plan.new.size:
        grown = resized(plan, plan.new, size)
        return [grown] if grown else []
    return [patch for entry, less in old_sizes(plan) if (patch := resized(plan, entry, less))]


def _creation(plan: Rollout) -> list[Action]:
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


def _status(plan: Rollout, status: dict[str, Any]) -> list[Action]:
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
    current = find(conditions, "Progressing")
    reason = current.get("reason") if current else None
    if reason == TIMED_OUT or plan.paused == (reason == PAUSED):
        return []
    if plan.paused:
        new = new_condition("Progressing", "Unknown", PAUSED, "Deployment is paused", now)
    else:
        new = new_condition("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", now)
    return [_status_patch(plan, {"conditions": with_condition(conditions, new)})]


def _synced(plan: Rollout, now: float) -> list[Action]:
    """Update the revision annotations, first on the ReplicaSet and then on the Deployment."""
    new = plan.new
    if new is None:
        return []
    behind = synced_annotations(plan, new)
    if behind is not None:
        return [behind]
    revision = new.annotations.get(REVISION, "")
    conditions: Conditions = list(plan.status.get("conditions") or ())
    if plan.progress_deadline is not None and find(conditions, "Progressing") is None:
        text = f'Found new replica set "{new.name}"'
        condition = new_condition("Progressing", "True", "FoundNewReplicaSet", text, now)
        return [_status_patch(plan, {"conditions": with_condition(conditions, condition)}, revision)]
    if (plan.deployment["metadata"].get("annotations") or {}).get(REVISION) != revision:
        return [_status_patch(plan, {}, revision)]
    return []


def _created(plan: Rollout, steps: Iterable[Action], now: float) -> Patch:
    """Write the revision and the condition to the Deployment after the creation of a ReplicaSet."""
    body = next(step.body for step in steps if isinstance(step, Create))
    conditions: Conditions = list(plan.status.get("conditions") or ())
    if plan.progress_deadline is not None:
        text = f'Created new replica set "{body["metadata"]["name"]}"'
        conditions = with_condition(conditions, new_condition("Progressing", "True", "NewReplicaSetCreated", text, now))
    return _status_patch(plan, {"conditions": conditions}, body["metadata"]["annotations"][REVISION])


def _after_refusal(plan: Rollout, reason: str, message: str, now: float) -> list[Action]:
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
