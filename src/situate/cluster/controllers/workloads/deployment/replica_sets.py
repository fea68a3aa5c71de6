"""Write a Deployment's ReplicaSets: creation, size, annotations (upstream: util/deployment_util.go)."""

from __future__ import annotations

from typing import Any

from situate.cluster.controllers.machinery.actions import Create, EventTemplate, Patch
from situate.cluster.controllers.machinery.owners import controller_reference
from situate.cluster.controllers.machinery.tables import REPLICA_SETS
from situate.cluster.controllers.workloads.deployment.rollout import (
    DESIRED_REPLICAS,
    HASH_LABEL,
    MAX_REPLICAS,
    REVISION,
    REVISION_HISTORY,
    OwnedReplicaSet,
    Rollout,
)
from situate.cluster.controllers.workloads.deployment.scaling import new_size
from situate.cluster.controllers.workloads.templates import template_hash

_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        "deprecated.deployment.rollback.to",
    }
)
_HISTORY_CHARACTERS = 2000


def next_revision(plan: Rollout) -> int:
    return max((entry.revision for entry in plan.old), default=0) + 1


def new_replica_set(plan: Rollout) -> Create:
    """Create the ReplicaSet of the present template, already with the size that the rollout allows."""
    template = plan.spec["template"]
    label = template_hash(template, plan.status.get("collisionCount"))
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: label}
    selector = plan.spec["selector"]
    size = new_size(plan, 0)
    name = f"{plan.name[: 252 - len(label)]}-{label}"
    annotations = {**_copied_annotations(plan), REVISION: str(next_revision(plan)), **_size_annotations(plan)}
    body = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": plan.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [controller_reference(plan.deployment)],
        },
        "spec": {
            "replicas": size,
            "minReadySeconds": plan.spec.get("minReadySeconds", 0),
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: label}},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        },
    }
    text = f"Scaled up replica set {name} from 0 to {size}"
    failure = f'Failed to create new replica set "{name}": {{error}}'
    return Create(
        REPLICA_SETS,
        plan.namespace,
        body,
        done=EventTemplate(plan.deployment, "ScalingReplicaSet", text) if size else None,
        failed=EventTemplate(plan.deployment, "ReplicaSetCreateError", failure, "Warning"),
    )


def annotation_patch(plan: Rollout, new: OwnedReplicaSet) -> Patch | None:
    """Update revision, copied annotations and minReadySeconds of the new ReplicaSet, if any of them differs."""
    changed = {name: text for name, text in _copied_annotations(plan).items() if new.annotations.get(name) != text}
    revision = next_revision(plan)
    if new.revision < revision:
        changed[REVISION] = str(revision)
        if REVISION in new.annotations:
            changed |= _history_annotation(new)
    body: dict[str, Any] = {}
    if changed:
        body["metadata"] = {"annotations": changed}
    wait = plan.spec.get("minReadySeconds", 0)
    if new.obj["spec"].get("minReadySeconds", 0) != wait:
        body["spec"] = {"minReadySeconds": wait}
    return Patch(REPLICA_SETS, plan.namespace, new.name, body) if body else None


def size_patch(plan: Rollout, entry: OwnedReplicaSet, size: int) -> Patch | None:
    """Resize a ReplicaSet, and record the Deployment size behind it."""
    sizes = _size_annotations(plan)
    changed = {name: text for name, text in sizes.items() if entry.annotations.get(name) != text}
    if entry.size == size and not changed:
        return None
    note = None
    if entry.size != size:
        way = "up" if entry.size < size else "down"
        text = f"Scaled {way} replica set {entry.name} from {entry.size} to {size}"
        note = EventTemplate(plan.deployment, "ScalingReplicaSet", text)
    body: dict[str, Any] = {"metadata": {"uid": entry.uid, "annotations": changed}, "spec": {"replicas": size}}
    return Patch(REPLICA_SETS, plan.namespace, entry.name, body, done=note)


def _size_annotations(plan: Rollout) -> dict[str, str]:
    return {DESIRED_REPLICAS: str(plan.replicas), MAX_REPLICAS: str(plan.replicas + plan.max_surge)}


def _copied_annotations(plan: Rollout) -> dict[str, str]:
    annotations = plan.deployment["metadata"].get("annotations") or {}
    return {name: text for name, text in annotations.items() if name not in _NOT_COPIED}


def _history_annotation(new: OwnedReplicaSet) -> dict[str, str]:
    """Return the previous revisions of this template. The oldest are dropped when the list becomes too long."""
    revisions = [text for text in new.annotations.get(REVISION_HISTORY, "").split(",") if text]
    revisions.append(new.annotations[REVISION])
    while len(",".join(revisions)) > _HISTORY_CHARACTERS:
        del revisions[0]
    return {REVISION_HISTORY: ",".join(revisions)} if revisions else {}
