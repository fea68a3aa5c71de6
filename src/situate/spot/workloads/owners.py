"""Workloads and pods as values, and the controller chain of a pod, by uid.

A kind of workload is an entry of `KINDS`: the controller between it and its pods, the revision label, and whether pods
have ordinals. Objects are plain JSON, so that kinds without a struct are read like the others. Rules: B25, B42, K4,
P14, S2, S3.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from situate.objects.kinds.pods import Pod
from situate.objects.values.timestamps import BadTime, parse_time
from situate.spot.model.counts import Nodes
from situate.spot.model.pods_nodes_workloads import (
    CLASS,
    DEADLINE,
    DECISION,
    DELETION_COST,
    GATE,
    RELEASED_PREFIX,
    TEMPLATE_HASH,
    Capacity,
    Owner,
    PodFacts,
    PodKey,
)
from situate.spot.nodes.node_signals import Signal
from situate.spot.workloads.constraints import LOST_NODE_TAINTS, NO_NODES, Json, as_mapping, capacity_constraint
from situate.spot.workloads.on_demand_target import known_annotations

_REVISION_NUMBER: Final = "deployment.kubernetes.io/revision"
_CONTROLLER_REVISION: Final = "controller-revision-hash"


@dataclass(frozen=True, slots=True)
class OwnerKind:
    """Properties of one kind of workload."""

    kind: str
    plural: str
    """Name of its resource."""
    group: str = "apps"
    version: str = "v1"
    intermediate_kind: str = ""
    """Kind of the controller between it and its pods, of group apps; empty if it controls them directly."""
    revision_label: str = TEMPLATE_HASH
    stateful: bool = False


KINDS: Final[Mapping[str, OwnerKind]] = {
    each.kind: each
    for each in (
        OwnerKind("Deployment", "deployments", intermediate_kind="ReplicaSet"),
        OwnerKind("StatefulSet", "statefulsets", revision_label=_CONTROLLER_REVISION, stateful=True),
        OwnerKind(
            "Rollout",
            "rollouts",
            "argoproj.io",
            "v1alpha1",
            intermediate_kind="ReplicaSet",
            revision_label="rollouts-pod-template-hash",
        ),
        OwnerKind("CloneSet", "clonesets", "apps.kruise.io", "v1alpha1", revision_label=_CONTROLLER_REVISION),
    )
}
DEFAULT_KINDS: Final = ("Deployment", "StatefulSet")


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller reference on a pod."""

    api_version: str
    kind: str
    name: str
    uid: str

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class ReplicaSetFacts:
    """A controller between a workload and its pods."""

    uid: str
    controller: Controller | None
    """The workload; None without a controller."""
    namespace: str
    name: str
    replicas: int = 1
    revision: str = ""
    """The hash that its pods carry."""
    number: int = 0
    """Revision number of the workload; the highest is the current one."""


def controller_of(metadata: Json) -> Controller | None:
    """Return the controller reference of an object; None if there is none."""
    references = metadata.get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        found = as_mapping(reference)
        if found.get("controller") is True:
            return Controller(*(str(found.get(key, "")) for key in ("apiVersion", "kind", "name", "uid")))
    return None


def kind_of(controller: Controller, kinds: Iterable[OwnerKind]) -> OwnerKind | None:
    """Return the kind of workload of this controller; None for other controllers."""
    said = (controller.group, controller.kind)
    return next((kind for kind in kinds if (kind.group, kind.kind) == said), None)


def is_intermediate_controller(controller: Controller, kinds: Iterable[OwnerKind]) -> bool:
    """Return whether pods of this controller may belong to a workload that controls the controller."""
    return controller.group == "apps" and any(kind.intermediate_kind == controller.kind for kind in kinds)


def replica_set_facts(obj: Json) -> ReplicaSetFacts:
    metadata, spec = as_mapping(obj.get("metadata")), as_mapping(obj.get("spec"))
    labels = as_mapping(metadata.get("labels"))
    revision = next((str(labels[kind.revision_label]) for kind in KINDS.values() if kind.revision_label in labels), "")
    return ReplicaSetFacts(
        uid=str(metadata.get("uid", "")),
        controller=controller_of(metadata),
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        replicas=_parse_integer(spec.get("replicas"), 1),
        revision=revision,
        number=_parse_integer(as_mapping(metadata.get("annotations")).get(_REVISION_NUMBER), 0),
    )


def owner_facts(
    obj: Json,
    kind: OwnerKind,
    table: Sequence[Signal],
    owned: Iterable[ReplicaSetFacts] = (),
    nodes: Nodes = NO_NODES,
) -> Owner:
    """Read a workload; `owned` are the controllers between it and its pods, `nodes` those that it may name."""
    metadata, spec, status = (as_mapping(obj.get(part)) for part in ("metadata", "spec", "status"))
    template = as_mapping(spec.get("template"))
    template_metadata, pod_spec = as_mapping(template.get("metadata")), template_spec(obj)
    own = capacity_constraint(pod_spec, table, nodes)
    replicas = _parse_integer(spec.get("replicas"), 1)
    return Owner(
        kind=kind.kind,
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        replicas=replicas,
        stateful=kind.stateful,
        ordinals_start=_parse_integer(as_mapping(spec.get("ordinals")).get("start"), 0),
        revision=_revision(kind, status, tuple(owned)),
        revision_label=kind.revision_label,
        observed=_parse_integer(status.get("observedGeneration"), 0) >= _parse_integer(metadata.get("generation"), 0),
        rolling=_is_rolling(kind, spec, status, replicas),
        paused=spec.get("paused") is True or as_mapping(spec.get("updateStrategy")).get("paused") is True,
        min_ready_s=float(_parse_integer(spec.get("minReadySeconds"), 0)),
        annotations=known_annotations(as_mapping(metadata.get("annotations"))),
        labels=dict(as_mapping(metadata.get("labels"))),
        template_labels=dict(as_mapping(template_metadata.get("labels"))),
        tolerated=_template_toleration_keys(pod_spec),
        pinned=own.capacity,
        conflict=own.field,
        releasable=bool(kind.intermediate_kind) and kind.revision_label == TEMPLATE_HASH,
        placeable=own.placeable,
        template_cost=DELETION_COST in as_mapping(template_metadata.get("annotations")),
    )


def _revision(kind: OwnerKind, status: Json, owned: Sequence[ReplicaSetFacts]) -> str:
    if kind.intermediate_kind:
        newest = max(owned, key=lambda each: (each.number, each.replicas, each.uid), default=None)
        return str(status.get("currentPodHash", newest.revision if newest is not None else ""))
    return _revision_suffix(str(status.get("updateRevision", "")))


def revision_of(labels: Json, label: str) -> str:
    """Return the revision in a pod's labels; empty without one."""
    said = str(labels.get(label, ""))
    return _revision_suffix(said) if label == _CONTROLLER_REVISION else said


def _revision_suffix(revision: str) -> str:
    """Return the revision without the workload's name.

    Revision names begin with that name; labels omit it with OpenKruise's CloneSetShortHash (kruise,
    pkg/controller/cloneset).
    """
    return revision.rpartition("-")[2]


def _is_rolling(kind: OwnerKind, spec: Json, status: Json, replicas: int) -> bool:
    """Return whether older pods are still to be replaced; those below a partition are not."""
    updated = _parse_integer(status.get("updatedReplicas"), 0)
    if kind.intermediate_kind:
        return _parse_integer(status.get("replicas"), 0) > updated
    strategy = as_mapping(spec.get("updateStrategy"))
    partition = _partition(
        as_mapping(strategy.get("rollingUpdate")).get("partition", strategy.get("partition")), replicas
    )
    same = status.get("currentRevision") == status.get("updateRevision")
    return not same and strategy.get("type") != "OnDelete" and updated < max(0, replicas - partition)


def _partition(value: object, replicas: int) -> int:
    """Return the pods that stay old; a CloneSet's share is rounded up.

    Source: kruise, clonesetutils.CalculatePartitionReplicas.
    """
    if isinstance(value, str) and value.endswith("%"):
        return -(-replicas * _parse_integer(value[:-1], 0) // 100)
    return _parse_integer(value, 0)


def template_spec(obj: Json) -> Json:
    """Return the pod spec of a workload's template."""
    return as_mapping(as_mapping(as_mapping(obj.get("spec")).get("template")).get("spec"))


def _template_toleration_keys(pod_spec: Json) -> frozenset[str]:
    """Return the keys of the eviction tolerations that a template sets; an empty key means all."""
    tolerations = pod_spec.get("tolerations")
    keys = (
        str(toleration.get("key", ""))
        for toleration in map(as_mapping, tolerations if isinstance(tolerations, list) else ())
        if toleration.get("effect", "") in ("", "NoExecute")
    )
    return frozenset(key for key in keys if key in ("", *LOST_NODE_TAINTS))


def pod_facts(pod: Pod) -> PodFacts:
    """Read a pod of the watch. Invalid values in spot's own annotations count as absent."""
    metadata, status = pod.metadata, pod.status
    decision = read_decision(metadata.annotations)
    ready = pod.condition("Ready")
    is_ready = ready is not None and ready.status == "True"
    since = ready.last_transition_time if ready is not None else None
    controller = metadata.controller
    hashed = metadata.labels.get(TEMPLATE_HASH, "")
    released = hashed.startswith(RELEASED_PREFIX)
    revision = hashed or next((v for k in KINDS.values() if (v := revision_of(metadata.labels, k.revision_label))), "")
    grace = pod.spec.termination_grace_period_seconds
    return PodFacts(
        PodKey(metadata.namespace, metadata.name),
        metadata.uid,
        controller=controller.uid if controller is not None else "",
        revision=revision.removeprefix(RELEASED_PREFIX),
        pod_class=_parse_class(metadata.labels.get(CLASS)),
        token=str(decision.get("token", "")),
        node=pod.spec.node_name,
        phase=status.phase or "Pending",
        ready=is_ready,
        ready_since=since.timestamp() if is_ready and since is not None else None,
        created=metadata.creation_timestamp.timestamp() if metadata.creation_timestamp is not None else 0.0,
        started=status.start_time.timestamp() if status.start_time is not None else None,
        terminating=metadata.deletion_timestamp is not None,
        released=released,
        deadline=_parse_deadline(metadata.annotations.get(DEADLINE)),
        restarts=sum(each.restart_count for each in status.container_statuses),
        cost=_parse_cost(metadata.annotations.get(DELETION_COST)),
        gated=any(gate.name == GATE for gate in pod.spec.scheduling_gates),
        owners=len(metadata.owner_references),
        cpu_milli=sum(
            amount.milli_value
            for container in pod.spec.containers
            if (amount := container.resources.requests.get("cpu")) is not None
        ),
        grace_s=30.0 if grace is None else float(grace),
        labels=metadata.labels,
        evicting=tuple(
            (toleration.key, toleration.toleration_seconds)
            for toleration in pod.spec.tolerations
            if toleration.key in LOST_NODE_TAINTS and toleration.toleration_seconds is not None
        ),
        former_owner=str(decision.get("owner", "")) if released else "",
    )


def read_decision(annotations: Mapping[str, str]) -> dict[str, Any]:
    """Decode the decision annotation of a pod; empty if it cannot be read."""
    try:
        found = json.loads(annotations.get(DECISION, "{}"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _parse_class(text: str | None) -> Capacity | None:
    return Capacity(text) if text in (Capacity.ON_DEMAND, Capacity.SPOT) else None


def _parse_deadline(text: str | None) -> float | None:
    try:
        return parse_time(text).timestamp() if text is not None else None
    except BadTime:
        return None


def _parse_cost(text: str | None) -> int | None:
    return _parse_integer(text, 0) if text is not None else None


def _parse_integer(value: object, otherwise: int) -> int:
    """Return an integer that an object may carry as a number or as text."""
    if isinstance(value, str) and len(value) <= 11 and value.removeprefix("-").isascii():
        value = int(value) if value.removeprefix("-").isdecimal() else otherwise
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
