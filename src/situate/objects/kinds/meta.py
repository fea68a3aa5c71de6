"""The parts that all Kubernetes objects share (apimachinery meta/v1 types.go)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Protocol

import msgspec

from situate.objects.model import Model

NO_LABELS: Mapping[str, str] = MappingProxyType({})
"""The only empty map of labels or annotations: a hundred thousand Pods share it."""


class OwnerReference(Model, frozen=True):
    """An owner of an object; at most one owner is the controller."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class ObjectMeta(Model, frozen=True):
    """`metadata` of any object."""

    name: str = ""
    namespace: str = ""
    """Empty for cluster-scoped objects."""
    uid: str = ""
    resource_version: str = ""
    """Opaque; an equal value means an unchanged object."""
    generation: int = 0
    creation_timestamp: datetime | None = None
    """None before the server has stored the object."""
    deletion_timestamp: datetime | None = None
    """None unless the object is being deleted."""
    deletion_grace_period_seconds: int | None = None
    """None unless the object is being deleted."""
    labels: Mapping[str, str] = NO_LABELS
    annotations: Mapping[str, str] = NO_LABELS
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    generate_name: str = ""

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object; None without one."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class ListMeta(Model, frozen=True):
    """`metadata` of a page of objects."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    """Token for the next page; empty on the last one."""
    remaining_item_count: int | None = None
    """Objects after this page; None if the server does not count them, as under a field selector."""


class Condition(Model, frozen=True):
    """One entry of `status.conditions`."""

    type: str = ""
    status: str = ""
    """`True`, `False` or `Unknown`."""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    """None if the writer sets no time."""
    observed_generation: int = 0


class KubernetesObject(Protocol):
    """The common interface of all models."""

    @property
    def metadata(self) -> ObjectMeta: ...
