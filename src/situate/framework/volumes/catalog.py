"""What plugins read besides nodes and pods: namespaces, owners of pods, budgets, storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from situate.framework.volumes.storage import EMPTY_STORAGE, Storage
from situate.objects.selection.label_selectors import Selector

Name = tuple[str, str]
"""Namespace and name; the namespace is empty for objects of the cluster."""
_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})
_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


def _nothing() -> Mapping[Any, Any]:
    return _NONE


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget, as preemption reads it."""

    name: str
    selector: Selector
    disruptions_allowed: int
    disrupted_pods: frozenset[str] = frozenset()
    """Names of pods whose eviction has been granted already."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """Frozen; a change of any object gives another one."""

    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=_nothing)
    """The labels of each namespace."""
    services: Mapping[str, tuple[Mapping[str, str], ...]] = field(default_factory=_nothing)
    """By namespace: the selectors of its services that have one."""
    owners: Mapping[tuple[str, str, str], Selector] = field(default_factory=_nothing)
    """By kind, namespace and name of a ReplicationController, ReplicaSet or StatefulSet: which pods are its own."""
    budgets: Mapping[str, tuple[Budget, ...]] = field(default_factory=_nothing)
    """By namespace, in the order of their names."""
    storage: Storage = EMPTY_STORAGE

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """None if the namespace is not known."""
        return self.namespaces.get(namespace, _NO_LABELS)


EMPTY: Final = Catalog()
