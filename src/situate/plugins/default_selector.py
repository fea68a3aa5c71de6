"""The default selector of related Pods: Pods of the same services and the same owner.

After upstream plugins/helper/spread.go DefaultSelector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from situate.framework.pod.pods import PodInfo
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.volumes.catalog import Catalog
from situate.objects.kinds.meta import OwnerReference
from situate.objects.selection.label_selectors import Requirement, Selector

_OWNERS: Final = {"ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}
"""The supported kinds of owners, with their API versions."""
_MERGED_OWNER: Final = "ReplicationController"
"""Its labels override those of services. The selectors of other owners are required in addition."""


@dataclass(frozen=True, slots=True, eq=False)
class _SelectorResult:
    """The result, and the objects whose ids are in the plan's key."""

    selector: Selector | None
    key_objects: tuple[object, ...]


def default_selector(pod: PodInfo, catalog: Catalog, nodes: NodeTable) -> Selector | None:
    """Return the selector of related Pods; None without services and owner. Equal results are the same object."""
    services = catalog.services.get(pod.namespace, ())
    owner = pod.pod.metadata.controller if catalog.owners else None
    owned = _owner_selector(pod, owner, catalog) if owner is not None else None
    if not services and owned is None:
        return None
    merging = owner is not None and owner.kind == _MERGED_OWNER
    key = ("DefaultSelector", id(pod.labels), id(services), id(owned), merging)
    return nodes.plan(key, lambda: _find_selector(pod.labels, services, owned, merging, nodes)).selector


def _owner_selector(pod: PodInfo, owner: OwnerReference, catalog: Catalog) -> Selector | None:
    """Return the selector of the Pod's controller."""
    if _OWNERS.get(owner.kind) != owner.api_version:
        return None
    return catalog.owners.get((owner.kind, pod.namespace, owner.name))


def _find_selector(
    labels: Mapping[str, str],
    services: tuple[Mapping[str, str], ...],
    owned: Selector | None,
    merging: bool,  # upstream distinguishes two kinds of owner
    nodes: NodeTable,
) -> _SelectorResult:
    wanted: dict[str, str] = {}
    for service in services:
        if all(labels.get(key) == value for key, value in service.items()):
            wanted.update(service)
    if owned is not None and merging:
        wanted.update((each.key, value) for each in owned.requirements for value in each.values)
    requirements = [Requirement(key, "in", frozenset((value,))) for key, value in sorted(wanted.items())]
    if owned is not None and not owned.nothing and not merging:
        requirements += owned.requirements
    heeded = (labels, services, owned)
    if not requirements:
        return _SelectorResult(None, heeded)
    selector = Selector(tuple(requirements))
    return _SelectorResult(nodes.plan(("DefaultSelector", selector), lambda: selector), heeded)
