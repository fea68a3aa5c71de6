"""Nodes: what a scheduler reads of them (core/v1 types.go)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from situate.objects.kinds.meta import Condition, ObjectMeta
from situate.objects.model import Model
from situate.objects.values.quantity import NO_QUANTITIES, Quantity


class Taint(Model, frozen=True):
    """Keeps pods away that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    """`NoSchedule`, `PreferNoSchedule` or `NoExecute`."""
    time_added: datetime | None = None
    """None if whoever added it did not say."""


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
    """What pods may claim: capacity without what the node keeps for itself."""
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()
    """What the kubelet offers to pods that need it (KEP-5328)."""


class Node(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def condition(self, type_: str) -> Condition | None:
        """The condition of this type; None if nobody has reported it."""
        for condition in self.status.conditions:
            if condition.type == type_:
                return condition
        return None

    @property
    def ready(self) -> bool:
        """Whether the node's `Ready` condition is `True`; a silent node is `Unknown` and so not ready."""
        condition = self.condition("Ready")
        return condition is not None and condition.status == "True"
