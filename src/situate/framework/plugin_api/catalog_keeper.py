"""Maintain the catalog that plugins read: a change of an object changes one entry, and copies are made on demand.

Most changes of these objects are changes of status, which change nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from situate.framework.plugin_api.changes import discard, store
from situate.framework.plugin_api.events import ClusterEvent
from situate.framework.volumes.catalog import Budget, Catalog
from situate.framework.volumes.storage import EMPTY_STORAGE, Storage
from situate.objects.kinds.config_maps import Namespace
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.kinds.services import Service
from situate.objects.kinds.workloads import PodDisruptionBudget, ReplicaSet, ReplicationController, StatefulSet
from situate.objects.resources import (
    CSIDRIVERS,
    CSINODES,
    CSISTORAGECAPACITIES,
    NAMESPACES,
    PERSISTENTVOLUMECLAIMS,
    PERSISTENTVOLUMES,
    PODDISRUPTIONBUDGETS,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
    SERVICES,
    STATEFULSETS,
    STORAGECLASSES,
    VOLUMEATTACHMENTS,
    ResourceType,
)
from situate.objects.selection.label_selectors import Requirement, Selector, selector_of

_NOTHING: Final = Catalog()


@dataclass(slots=True)
class CatalogKeeper:
    """The current catalog entries; mutable. `catalog` returns immutable values, the same one until a change."""

    _namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _services: dict[str, dict[str, Mapping[str, str]]] = field(default_factory=dict)
    _owners: dict[tuple[str, str, str], Selector] = field(default_factory=dict)
    _budgets: dict[str, dict[str, Budget]] = field(default_factory=dict)
    _storage: Storage = EMPTY_STORAGE
    _stale: set[str] = field(default_factory=set)
    """Tables of the catalog that are out of date. Tables by namespace are named `table/namespace`."""
    _catalog: Catalog = _NOTHING

    def change(
        self, resource: ResourceType[Any], old: KubernetesObject | None, new: KubernetesObject | None
    ) -> tuple[ClusterEvent, ...]:
        """Apply a new, changed or deleted object, and return the events for the queue.

        `BadSelector` if the object's selector is invalid.
        """
        if resource in _STORAGE_RESOURCES:
            return self._change_storage(old, new)
        _CHANGES[resource](self, old, new)
        return ()

    @property
    def last_catalog(self) -> Catalog:
        """The last result of `catalog`."""
        return self._catalog

    @property
    def stale(self) -> bool:
        """Whether `catalog` would return a new value."""
        return bool(self._stale)

    def catalog(self) -> Catalog:
        """Return the current catalog."""
        if not self._stale:
            return self._catalog
        known, stale = self._catalog, self._stale
        services = {each.partition("/")[2] for each in stale if each.startswith("services/")}
        budgets = {each.partition("/")[2] for each in stale if each.startswith("budgets/")}
        self._catalog = Catalog(
            namespaces=dict(self._namespaces) if "namespaces" in stale else known.namespaces,
            services=_rebuild_namespaces(known.services, services, self._services, lambda held: tuple(held.values())),
            owners=dict(self._owners) if "owners" in stale else known.owners,
            budgets=_rebuild_namespaces(
                known.budgets, budgets, self._budgets, lambda held: tuple(held[n] for n in sorted(held))
            ),
            storage=self._storage,
        )
        stale.clear()
        return self._catalog

    def _change_storage(self, old: Any, new: Any) -> tuple[ClusterEvent, ...]:
        self._storage, events = discard(self._storage, old) if new is None else store(self._storage, new)
        self._stale.add("storage")
        return events

    def _change_namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        name = _name_of(old, new)[1]
        if _put(self._namespaces, name, None if new is None else new.metadata.labels):
            self._stale.add("namespaces")

    def _change_service(self, old: Service | None, new: Service | None) -> None:
        namespace, name = _name_of(old, new)
        held = self._services.setdefault(namespace, {})
        if _put(held, name, None if new is None or not new.spec.selector else new.spec.selector):
            self._stale.add(f"services/{namespace}")

    def _change_controller(self, old: ReplicationController | None, new: ReplicationController | None) -> None:
        wanted = None
        if new is not None:
            items = sorted(new.spec.selector.items())
            wanted = Selector(tuple(Requirement(key, "in", frozenset((value,))) for key, value in items))
        self._change_owner("ReplicationController", _name_of(old, new), wanted)

    def _change_replica_set(self, old: ReplicaSet | None, new: ReplicaSet | None) -> None:
        wanted = None if new is None else selector_of(new.spec.selector, "spec.selector")
        self._change_owner("ReplicaSet", _name_of(old, new), wanted)

    def _change_stateful_set(self, old: StatefulSet | None, new: StatefulSet | None) -> None:
        wanted = None if new is None else selector_of(new.spec.selector, "spec.selector")
        self._change_owner("StatefulSet", _name_of(old, new), wanted)

    def _change_owner(self, kind: str, name: tuple[str, str], wanted: Selector | None) -> None:
        if _put(self._owners, (kind, *name), wanted):
            self._stale.add("owners")

    def _change_budget(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        namespace, name = _name_of(old, new)
        wanted = None
        if new is not None:
            status = new.status
            selector = selector_of(new.spec.selector, "spec.selector")
            wanted = Budget(name, selector, status.disruptions_allowed, frozenset(status.disrupted_pods))
        if _put(self._budgets.setdefault(namespace, {}), name, wanted):
            self._stale.add(f"budgets/{namespace}")


_CHANGES: Final[Mapping[ResourceType[Any], Callable[[CatalogKeeper, Any, Any], None]]] = {
    NAMESPACES: CatalogKeeper._change_namespace,  # noqa: SLF001  # its own table of its own methods
    SERVICES: CatalogKeeper._change_service,  # noqa: SLF001
    REPLICATIONCONTROLLERS: CatalogKeeper._change_controller,  # noqa: SLF001
    REPLICASETS: CatalogKeeper._change_replica_set,  # noqa: SLF001
    STATEFULSETS: CatalogKeeper._change_stateful_set,  # noqa: SLF001
    PODDISRUPTIONBUDGETS: CatalogKeeper._change_budget,  # noqa: SLF001
}

_STORAGE_RESOURCES: Final[tuple[ResourceType[Any], ...]] = (
    PERSISTENTVOLUMECLAIMS,
    PERSISTENTVOLUMES,
    STORAGECLASSES,
    CSINODES,
    CSIDRIVERS,
    CSISTORAGECAPACITIES,
    VOLUMEATTACHMENTS,
)

CATALOG_RESOURCES: Final[tuple[ResourceType[Any], ...]] = (*_CHANGES, *_STORAGE_RESOURCES)
"""The resources that `CatalogKeeper.change` takes."""


def _name_of(old: KubernetesObject | None, new: KubernetesObject | None) -> tuple[str, str]:
    each = new if new is not None else old
    assert each is not None
    return each.metadata.namespace, each.metadata.name


def _put(table: dict[Any, Any], key: Any, value: Any) -> bool:
    """Store the value, or remove the entry if it is None; return whether the table changed."""
    if value is None:
        return table.pop(key, None) is not None
    if key in table and table[key] == value:
        return False
    table[key] = value
    return True


def _rebuild_namespaces(
    known: Mapping[str, Any], namespaces: set[str], held: dict[str, dict[str, Any]], made: Callable[[Any], Any]
) -> Mapping[str, Any]:
    """Return the table with the entries of these namespaces rebuilt. The other entries stay the same objects."""
    if not namespaces:
        return known
    table = dict(known)
    for namespace in namespaces:
        if held.get(namespace):
            table[namespace] = made(held[namespace])
        else:
            table.pop(namespace, None)
            held.pop(namespace, None)
    return table
