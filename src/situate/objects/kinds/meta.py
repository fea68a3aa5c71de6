"""The parts that every Kubernetes object shares (apimachinery meta/v1 types.go)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Protocol

import msgspec

from situate.objects.model import Model

NO_LABELS: Mapping[str, str] = MappingProxyType({})
"""The one empty map of labels or annotations: a hundred thousand pods share it."""


class OwnerReference(Model, frozen=True):
    """Who owns an object; at most one owner is the controller."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class ObjectMeta(Model, frozen=True):
    """`metadata` of any object."""

    name: str = ""
    namespace: str = ""
    """Empty for objects of the cluster."""
    uid: str = ""
    resource_version: str = ""
    """Opaque; equal means unchanged."""
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
        """The owner that manages this object; None if nobody does."""
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
    """Objects after this page; None where the server does not say, as under a field selector."""


class Condition(Model, frozen=True):
    """One line of `status.conditions`."""

    type: str = ""
    status: str = ""
    """`True`, `False` or `Unknown`."""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    """None if the writer did not say."""
    observed_generation: int = 0


class KubernetesObject(Protocol):
    """What every model has."""

    @property
    def metadata(self) -> ObjectMeta: ...
