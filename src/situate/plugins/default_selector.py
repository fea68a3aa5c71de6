"""Which pods belong together when nobody says so: those of the same services and the same owner.

After upstream plugins/helper/spread.go DefaultSelector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from situate.framework.catalog import Catalog
from situate.framework.nodes import NodeTable
from situate.framework.pods import PodInfo
from situate.objects.label_selectors import Requirement, Selector

_OWNERS: Final = {"ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}
"""Kinds of owners that are heeded, with their API versions."""


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """The result, and what the key of its plan names by identity."""

    selector: Selector | None
    heeded: tuple[object, ...]


def default_selector(pod: PodInfo, catalog: Catalog, nodes: NodeTable) -> Selector | None:
    """The pods that are like this one; None if it belongs to nothing. The same object for equal answers."""
    services = catalog.services.get(pod.namespace, ())
    owned = _owned(pod, catalog) if catalog.owners else None
    if not services and owned is None:
        return None
    key = ("DefaultSelector", id(pod.labels), id(services), id(owned))
    return nodes.plan(key, lambda: _find(pod.labels, services, owned, nodes)).selector


def _owned(pod: PodInfo, catalog: Catalog) -> Selector | None:
    """All pods of this one's controller."""
    owner = pod.pod.metadata.controller
    if owner is None or _OWNERS.get(owner.kind) != owner.api_version:
        return None
    return catalog.owners.get((owner.kind, pod.namespace, owner.name))


def _find(
    labels: Mapping[str, str], services: tuple[Mapping[str, str], ...], owned: Selector | None, nodes: NodeTable
) -> _Found:
    wanted: dict[str, str] = {}
    for service in services:
        if all(labels.get(key) == value for key, value in service.items()):
            wanted.update(service)
    requirements = [Requirement(key, "in", frozenset((value,))) for key, value in sorted(wanted.items())]
    if owned is not None and not owned.nothing:
        requirements += owned.requirements
    heeded = (labels, services, owned)
    if not requirements:
        return _Found(None, heeded)
    selector = Selector(tuple(requirements))
    return _Found(nodes.plan(("DefaultSelector", selector), lambda: selector), heeded)
