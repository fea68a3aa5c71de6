"""Create one worker for each placement: the Consumers of a ConsumerGroup, as Knative's own controller does.

All functions are pure: they take the existing and the wanted workers and return changes. The name of a new worker
follows from its group and Pod, so a second creation has no effect. Source: eventing-kafka-broker,
control-plane/pkg/reconciler/consumergroup/consumergroup.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeAlias

from situate.vpod.model.vpod import Placement
from situate.vpod.sources.crds import INTERNAL_GROUP

LONGEST_NAME = 253
"""Characters in the name of an object (DNS-1123 subdomain)."""


@dataclass(frozen=True, slots=True)
class Worker:
    """An existing Consumer."""

    name: str
    pod: str
    """The Pod in its spec; empty without one."""
    vreplicas: int | None
    """None if the spec has no valid number."""


@dataclass(frozen=True, slots=True)
class CreateWorker:
    """The creation of a Consumer. An existing Consumer of the same name counts as created."""

    name: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ResizeWorker:
    """The change of a worker's number of vreplicas."""

    name: str
    vreplicas: int


@dataclass(frozen=True, slots=True)
class DeleteWorker:
    """The deletion of a worker without a placement. A worker that is already gone counts as deleted."""

    name: str


WorkerChange: TypeAlias = CreateWorker | ResizeWorker | DeleteWorker


def worker_of(content: Mapping[str, Any]) -> Worker:
    """Read a Consumer with any content."""
    spec = _as_mapping(content.get("spec"))
    pod = _as_mapping(spec.get("podBind")).get("podName")
    vreplicas = spec.get("vReplicas")
    return Worker(
        name=str(_as_mapping(content.get("metadata")).get("name", "")),
        pod=pod if isinstance(pod, str) else "",
        vreplicas=vreplicas if isinstance(vreplicas, int) and not isinstance(vreplicas, bool) else None,
    )


def worker_changes(
    group: Mapping[str, Any], placements: Iterable[Placement], existing: Iterable[Worker], pod_namespace: str
) -> tuple[WorkerChange, ...]:
    """Return the changes that make a ConsumerGroup's workers match its placements: removals first, then in Pod order.

    A second worker on one Pod is removed, so that each placement has exactly one.
    """
    wanted = {placement.pod_name: placement.vreplicas for placement in placements if placement.vreplicas > 0}
    kept: dict[str, Worker] = {}
    changes: list[WorkerChange] = []
    for worker in existing:
        if worker.pod in wanted and worker.pod not in kept:
            kept[worker.pod] = worker
        else:
            changes.append(DeleteWorker(worker.name))
    for pod, vreplicas in wanted.items():
        worker_there = kept.get(pod)
        if worker_there is None:
            content = _consumer(group, pod, pod_namespace, vreplicas)
            changes.append(CreateWorker(content["metadata"]["name"], content))
        elif worker_there.vreplicas != vreplicas:
            changes.append(ResizeWorker(worker_there.name, vreplicas))
    return tuple(changes)


def _consumer(group: Mapping[str, Any], pod: str, pod_namespace: str, vreplicas: int) -> dict[str, Any]:
    metadata = _as_mapping(group.get("metadata"))
    template = _as_mapping(_as_mapping(group.get("spec")).get("template"))
    template_metadata = _as_mapping(template.get("metadata"))
    owner = {
        "apiVersion": f"{INTERNAL_GROUP}/v1alpha1",
        "kind": "ConsumerGroup",
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "metadata": {
            "name": _worker_name(str(metadata.get("name", "")), pod),
            "namespace": metadata.get("namespace"),
            "labels": dict(_as_mapping(template_metadata.get("labels"))),
            "annotations": dict(_as_mapping(template_metadata.get("annotations"))),
            "ownerReferences": [owner],
        },
        "spec": {
            **_as_mapping(template.get("spec")),
            "vReplicas": vreplicas,
            "podBind": {"podName": pod, "podNamespace": pod_namespace},
        },
    }


def _worker_name(group: str, pod: str) -> str:
    name = f"{group}-{pod}"
    if len(name) <= LONGEST_NAME:
        return name
    digest = sha256(name.encode()).hexdigest()[:10]
    return f"{name[: LONGEST_NAME - len(digest) - 1]}-{digest}"


def _as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
