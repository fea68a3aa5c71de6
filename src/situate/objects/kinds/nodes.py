"""Nodes, with the fields that a scheduler reads (core/v1 types.go)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from situate.objects.kinds.meta import Condition, ObjectMeta
from situate.objects.model import Model
from situate.objects.values.quantity import NO_QUANTITIES, Quantity


class Taint(Model, frozen=True):
    """A taint keeps Pods away that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    """`NoSchedule`, `PreferNoSchedule` or `NoExecute`."""
    time_added: datetime | None = None
    """None if no time was set."""


class NodeSpec(Model, frozen=True):
    unschedulable: bool = False
    """Cordoned."""
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")


class ContainerImage(Model, frozen=True):
    """An image that the node has already pulled."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Model, frozen=True):
    capacity: Mapping[str, Quantity] = NO_QUANTITIES
    allocatable: Mapping[str, Quantity] = NO_QUANTITIES
    """The amounts that Pods may request: capacity minus the node's own reservation."""
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()
    """Features that the kubelet offers to Pods that need them (KEP-5328)."""


class Node(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of this type; None if no component has reported it."""
        for condition in self.status.conditions:
            if condition.type == type_:
                return condition
        return None

    @property
    def ready(self) -> bool:
        """Whether the node's `Ready` condition is `True`; a silent node is `Unknown`, so not ready."""
        condition = self.condition("Ready")
        return condition is not None and condition.status == "True"
