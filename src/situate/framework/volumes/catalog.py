"""Data that plugins read besides Nodes and Pods: namespaces, owners of Pods, budgets and storage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from situate.framework.volumes.storage import EMPTY_STORAGE, Storage
from situate.objects.selection.label_selectors import Selector

Name = tuple[str, str]
"""Namespace and name; the namespace is empty for cluster-scoped objects."""
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
    """Names of Pods whose eviction is already granted."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """The cluster data of one moment; immutable. A change of an object makes a new catalog."""

    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=_nothing)
    """The labels of each namespace."""
    services: Mapping[str, tuple[Mapping[str, str], ...]] = field(default_factory=_nothing)
    """By namespace: the selectors of its services that have one."""
    owners: Mapping[tuple[str, str, str], Selector] = field(default_factory=_nothing)
    """By kind, namespace and name of a ReplicationController, ReplicaSet or StatefulSet: its Pod selector."""
    budgets: Mapping[str, tuple[Budget, ...]] = field(default_factory=_nothing)
    """By namespace, in the order of their names."""
    storage: Storage = EMPTY_STORAGE

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of the namespace; empty if the namespace is unknown."""
        return self.namespaces.get(namespace, _NO_LABELS)


EMPTY_CATALOG: Final = Catalog()
