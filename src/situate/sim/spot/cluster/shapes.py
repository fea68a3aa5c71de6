"""Kinds of pods and nodes in a simulated cluster, as the scheduler and the deciding functions read them.

Thousands of pods differ only in name, UID and token. Their other fields are built once and shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.values.quantity import decode_quantity
from situate.spot.admission.patch import Operation
from situate.spot.admission.patch_check import apply_operations
from situate.spot.model.pods_nodes_workloads import (
    CAPACITY_LABEL,
    HOSTNAME,
    INSTANCE_TYPE_LABEL,
    ZONE_LABEL,
    Capacity,
    PodFacts,
)
from situate.spot.workloads.owners import pod_facts

NAMESPACE: Final = "shop"
TERMINATION_TAINT: Final = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}
"""Taint of a node with a notice, as termination handlers set it."""
_MEMORY_MIB: Final = 2048
"""Memory of one pod. Nodes have twice this memory for each pod that their CPUs can hold."""
_DEFAULT_TOLERATIONS: Final = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
)
"""Tolerations that the API server adds to every pod before webhooks see it (K4)."""


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Nodes that differ only in their names."""

    number: int
    capacity: Capacity
    zone: str
    slots: int
    """Number of pods with one CPU that fit."""

    @property
    def instance_type(self) -> str:
        return f"{self.capacity}-{self.slots}"

    def node(self, name: str, *, barred: bool) -> Node:
        """Build the Node object for the scheduler."""
        labels = {
            CAPACITY_LABEL: str(self.capacity),
            ZONE_LABEL: self.zone,
            INSTANCE_TYPE_LABEL: self.instance_type,
            HOSTNAME: name,
        }
        amounts = {"cpu": str(self.slots), "memory": f"{2 * _MEMORY_MIB * self.slots}Mi", "pods": "110"}
        wire = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": [TERMINATION_TAINT] if barred else []},
            "status": {"allocatable": amounts},
        }
        return msgspec.convert(wire, Node, dec_hook=decode_quantity)


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """The common fields of all pods of one template and class."""

    number: int
    pod: Pod
    facts: PodFacts
    named: bool
    """Whether it names nodes, so that no two nodes are equal for it."""


class Shapes:
    """All shapes so far, by the template and the operations of admission."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], Shape] = {}

    def shape_of(self, template: str, document: Mapping[str, Any], operations: Sequence[Operation]) -> Shape:
        """Return the shape of a pod. `template` identifies the document without the pod's name."""
        shared = [each for each in operations if not each["path"].startswith("/metadata/annotations")]
        key = template, msgspec.json.encode(shared)
        shape = self._known.get(key)
        if shape is None:
            pod = msgspec.convert(apply_operations(document, operations), Pod, dec_hook=decode_quantity)
            shape = Shape(len(self._known), pod, pod_facts(pod), HOSTNAME.encode() in key[1])
            self._known[key] = shape
        return shape


def pod_document(owner: Mapping[str, Any], labels: Mapping[str, str], spec: Mapping[str, Any], grace_s: float) -> Any:
    """Build a new pod as the webhook receives it. `owner` is the reference to its controller."""
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": "1", "memory": f"{_MEMORY_MIB}Mi"}},
    }
    return {
        "metadata": {"namespace": NAMESPACE, "labels": dict(labels), "ownerReferences": [dict(owner)]},
        "spec": {
            "containers": [container],
            "terminationGracePeriodSeconds": int(grace_s),
            "tolerations": [dict(each) for each in _DEFAULT_TOLERATIONS],
            **spec,
        },
    }
