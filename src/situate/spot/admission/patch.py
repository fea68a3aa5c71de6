"""JSON Patch of admission: `add` operations that never widen the nodes on which a pod may run.

On demand: one expression in every required term, because Kubernetes ORs terms and ANDs expressions. Spot: preferred
terms, and tolerations of the taints of spot pools. Labels and annotations are in the same patch. Applying the patch
twice changes nothing. Rules: P23 to P27.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from situate.objects.kinds.pods import NodeSelectorRequirement, Toleration
from situate.spot.model.pods_nodes_workloads import CLASS, DECISION, DELETION_COST, HOSTNAME, Capacity
from situate.spot.workloads.constraints import (
    LOST_NODE_TAINTS,
    PREFERRED,
    REQUIRED,
    Json,
    as_list,
    as_mapping,
    has_requirements,
)

Operation = Mapping[str, Any]
WEIGHT: Final = 100
_POOL_WEIGHT: Final = 50
"""Weight of terms against crowded pools: less than that of the spot term."""
DEFAULT_EVICTION_S: Final = 300
MOST_AVOIDED: Final = 20
"""Nodes in one term (B22)."""


@dataclass(frozen=True, slots=True)
class PlacementTerms:
    """The terms and tolerations that write a class into a pod."""

    on_demand: NodeSelectorRequirement
    """Requirement that only on-demand nodes meet."""
    spot: NodeSelectorRequirement
    tolerations: tuple[Toleration, ...] = ()
    """Tolerations of spot pools."""
    avoided_hosts: tuple[str, ...] = ()
    """Hostnames of nodes that end or may end soon and carry no taint of their own (B22)."""
    crowded_pools: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Labels and values of the pools that the workload fills most (B47)."""
    eviction_s: int | None = 20
    """Seconds that spot pods stay on a lost node; None leaves the defaults."""


@dataclass(frozen=True, slots=True)
class DecisionMarks:
    """Labels and annotations that record the decision."""

    decision: str
    """Compact JSON."""
    cost: int | None
    """Deletion cost; None writes none."""
    labels: Mapping[str, str] = field(default_factory=dict)


def class_patch(
    pod: Json,
    pod_class: Capacity,
    placing: PlacementTerms,
    marks: DecisionMarks,
    template_tolerates: frozenset[str] = frozenset(),
    *,
    touch_affinity: bool = True,
) -> list[Operation]:
    """Return the operations for a pod of this class; none if the pod has them all.

    `template_tolerates`: keys of the eviction tolerations that the owner's template sets; `""` means all keys.
    `touch_affinity` is false for a pod that the user pinned to the other capacity: the patch then writes only marks.
    """
    operations: list[Operation] = []
    spec = as_mapping(pod.get("spec"))
    if touch_affinity and pod_class is Capacity.ON_DEMAND:
        operations += _required_affinity_operations(spec, placing.on_demand)
    if touch_affinity and pod_class is Capacity.SPOT:
        operations += _preferred_affinity_operations(spec, _preferred_terms(placing))
        operations += _toleration_operations(spec, placing.tolerations)
        operations += _shorten_eviction_tolerations(spec, placing.eviction_s, template_tolerates)
    metadata = as_mapping(pod.get("metadata"))
    operations += _metadata_operations(metadata, "labels", {CLASS: str(pod_class), **marks.labels})
    annotations = {DECISION: marks.decision}
    if marks.cost is not None and DELETION_COST not in as_mapping(metadata.get("annotations")):
        annotations[DELETION_COST] = str(marks.cost)
    return operations + _metadata_operations(metadata, "annotations", annotations)


def _required_affinity_operations(spec: Json, requirement: NodeSelectorRequirement) -> list[Operation]:
    wire = _to_json(requirement)
    base = f"/spec/affinity/nodeAffinity/{REQUIRED}"
    affinity = spec.get("affinity")
    node_affinity = as_mapping(affinity).get("nodeAffinity")
    required = as_mapping(node_affinity).get(REQUIRED)
    terms = as_mapping(required).get("nodeSelectorTerms")
    if terms is None:
        value: Any = {"nodeSelectorTerms": [{"matchExpressions": [wire]}]}
        if not as_mapping(node_affinity):
            value = {REQUIRED: value}
            if not as_mapping(affinity):
                return [{"op": "add", "path": "/spec/affinity", "value": {"nodeAffinity": value}}]
            return [{"op": "add", "path": "/spec/affinity/nodeAffinity", "value": value}]
        return [{"op": "add", "path": base, "value": value}]
    operations: list[Operation] = []
    for number, term in enumerate(as_list(terms)):
        present = as_list(as_mapping(term).get("matchExpressions"))
        if not has_requirements(term) or wire in present:
            continue
        path = f"{base}/nodeSelectorTerms/{number}/matchExpressions"
        if present:
            operations.append({"op": "add", "path": f"{path}/-", "value": wire})
        else:
            operations.append({"op": "add", "path": path, "value": [wire]})
    return operations


def _preferred_terms(placing: PlacementTerms) -> list[dict[str, Any]]:
    wishes = [_preferred_term(WEIGHT, placing.spot)]
    if placing.avoided_hosts:
        hosts = tuple(sorted(placing.avoided_hosts)[:MOST_AVOIDED])
        wishes.append(_preferred_term(WEIGHT, NodeSelectorRequirement(HOSTNAME, "NotIn", hosts)))
    wishes += [
        _preferred_term(_POOL_WEIGHT, NodeSelectorRequirement(key, "NotIn", values))
        for key, values in placing.crowded_pools
    ]
    return wishes


def _preferred_term(weight: int, requirement: NodeSelectorRequirement) -> dict[str, Any]:
    return {"weight": weight, "preference": {"matchExpressions": [_to_json(requirement)]}}


def _preferred_affinity_operations(spec: Json, wishes: Sequence[dict[str, Any]]) -> list[Operation]:
    affinity = spec.get("affinity")
    node_affinity = as_mapping(affinity).get("nodeAffinity")
    present = as_list(as_mapping(node_affinity).get(PREFERRED))
    new = [wish for wish in wishes if not _has_preferred_term(wish, present)]
    if not new:
        return []
    path = f"/spec/affinity/nodeAffinity/{PREFERRED}"
    if present:
        return [{"op": "add", "path": f"{path}/-", "value": wish} for wish in new]
    if as_mapping(node_affinity):
        return [{"op": "add", "path": path, "value": new}]
    if as_mapping(affinity):
        return [{"op": "add", "path": "/spec/affinity/nodeAffinity", "value": {PREFERRED: new}}]
    return [{"op": "add", "path": "/spec/affinity", "value": {"nodeAffinity": {PREFERRED: new}}}]


def _has_preferred_term(wish: Mapping[str, Any], present: Iterable[Any]) -> bool:
    """Return whether an equal term is present, or for `NotIn` one with the same key and weight.

    On a second call of the webhook other nodes may end: that call must not add a second term.
    """
    (expression,) = wish["preference"]["matchExpressions"]
    for other in present:
        if other == wish:
            return True
        if expression["operator"] != "NotIn" or as_mapping(other).get("weight") != wish["weight"]:
            continue
        theirs = as_list(as_mapping(as_mapping(other).get("preference")).get("matchExpressions"))
        if len(theirs) == 1:
            (their,) = map(as_mapping, theirs)
            if (their.get("key"), their.get("operator")) == (expression["key"], "NotIn"):
                return True
    return False


def _toleration_operations(spec: Json, wanted: Iterable[Toleration]) -> list[Operation]:
    present = [as_mapping(each) for each in as_list(spec.get("tolerations"))]
    new = [_to_json(each) for each in wanted if not any(_tolerates(other, each) for other in present)]
    if not new:
        return []
    if present:
        return [{"op": "add", "path": "/spec/tolerations/-", "value": each} for each in new]
    return [{"op": "add", "path": "/spec/tolerations", "value": new}]


def _tolerates(present: Json, wanted: Toleration) -> bool:
    """Return whether a present toleration covers the taint that `wanted` tolerates."""
    operator = present.get("operator") or "Equal"
    same_key = present.get("key", "") == wanted.key or (not present.get("key") and operator == "Exists")
    same_effect = present.get("effect", "") in ("", wanted.effect)
    return same_key and same_effect and (operator == "Exists" or present.get("value", "") == wanted.value)


def _shorten_eviction_tolerations(spec: Json, seconds: int | None, template: frozenset[str]) -> list[Operation]:
    """Shorten the default tolerations of a lost node where they are present.

    `add` at an existing member replaces its value (RFC 6902). Keys that the template tolerates belong to the user.
    Rule: B25.
    """
    present = spec.get("tolerations")
    shorter: list[Operation] = []
    if seconds is None or "" in template or not isinstance(present, list):
        return shorter
    for number, each in enumerate(present):
        toleration = as_mapping(each)
        default = (
            toleration.get("key") in LOST_NODE_TAINTS
            and toleration.get("operator") == "Exists"
            and toleration.get("effect") == "NoExecute"
            and toleration.get("tolerationSeconds") == DEFAULT_EVICTION_S
        )
        if default and toleration["key"] not in template:
            shorter.append({"op": "add", "path": f"/spec/tolerations/{number}/tolerationSeconds", "value": seconds})
    return shorter


def _metadata_operations(metadata: Json, field_name: str, wanted: Mapping[str, str]) -> list[Operation]:
    """Return one operation for each key, or one for the whole map if there is none."""
    present = as_mapping(metadata.get(field_name))
    if not present:
        return [{"op": "add", "path": f"/metadata/{field_name}", "value": dict(wanted)}]
    return [
        {"op": "add", "path": f"/metadata/{field_name}/{_escape_json_pointer(key)}", "value": value}
        for key, value in wanted.items()
        if present.get(key) != value
    ]


def _escape_json_pointer(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _to_json(value: NodeSelectorRequirement | Toleration) -> dict[str, Any]:
    wire: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))  # JSON gives lists, as in the object
    return wire
