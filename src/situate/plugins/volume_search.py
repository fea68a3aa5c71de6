"""Volumes for a Pod's claims on each node (upstream volumebinding binder.go).

The volume of a bound claim must be usable on the node. A delayed claim gets an existing volume. Otherwise a volume is
provisioned, if the claim's class allows it and there is enough storage capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from situate.framework.pod.node_selection import Term
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.node_load import Amounts
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.volumes.persistent_map import EMPTY_MAP, PersistentMap
from situate.framework.volumes.storage import Name, Storage
from situate.objects.kinds.pods import NodeSelectorRequirement
from situate.objects.kinds.storage import (
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from situate.objects.selection.label_selectors import BadSelector, selector_of
from situate.objects.values.quantity import Quantity
from situate.plugins.in_tree_volumes import kind_of, migrated_node_terms
from situate.plugins.volume_claims import PodClaims
from situate.plugins.volume_matching import Match, match_claims, volume_places
from situate.plugins.volume_places import nodes_for_terms, selected_nodes

T = TypeVar("T")

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


_MOST: Final = 2**63 - 1


class NoStorageClass(LookupError):
    """The storage class of a claim was deleted in the meantime."""


@dataclass(frozen=True, slots=True, eq=False)
class Provision:
    """A claim whose volume would be provisioned."""

    claim: PersistentVolumeClaim
    where: Mask
    """(nodes,): the nodes without a matching volume where one can be provisioned."""


@dataclass(frozen=True, slots=True, eq=False)
class VolumeSearchResult:
    """The reasons against each node, (nodes,) each, and the volumes for the Pod."""

    conflict: Mask
    """A bound volume cannot be used there."""
    unbound: Mask
    """A claim finds no volume, and none can be provisioned."""
    short: Mask
    """There is not enough storage capacity to provision one."""
    missing: Mask
    """A bound volume does not exist."""
    matches: Sequence[Match] = ()
    provisions: Sequence[Provision] = ()

    @property
    def passes(self) -> Mask:
        passes: Mask = ~(self.conflict | self.unbound | self.short | self.missing)
        return passes


def find_volumes(claims: PodClaims, storage: Storage, nodes: NodeTable) -> VolumeSearchResult:
    """Find volumes on all nodes; the last result is cached, because Reserve repeats the query of Filter.

    Raises `NoStorageClass`, or `BadSelector` of a claim.
    """
    kept: dict[object, tuple[Storage, VolumeSearchResult]] = nodes.plan(("VolumeBinding", "last"), dict)
    asked = tuple(map(id, claims.bound)), tuple(map(id, claims.delayed))  # the storage references the claims
    known = kept.get(asked)
    if known is None or known[0] is not storage:
        kept.clear()
        known = kept[asked] = storage, _search_volumes(claims, storage, nodes)
    return known[1]


def _search_volumes(claims: PodClaims, storage: Storage, nodes: NodeTable) -> VolumeSearchResult:
    conflict, missing = _check_bound_claims(claims.bound, storage, nodes)
    none = np.zeros(len(nodes), dtype=np.bool_)
    if not claims.delayed:
        return VolumeSearchResult(conflict, none, none, missing)
    elsewhere = none.copy()
    chosen, free = [], []
    for claim in claims.delayed:
        if claim.selected_node is None:
            free.append(claim)
            continue
        chosen.append(claim)
        there = nodes.index.get(claim.selected_node)
        others = np.ones(len(nodes), dtype=np.bool_)
        if there is not None:
            others[there] = False
        elsewhere |= others
    matches = match_claims(free, storage, nodes)
    wanted = [(claim, ~none) for claim in chosen] + [(match.claim, ~match.nodes_with_volume) for match in matches]
    unbound, short, provisions = _provisions(wanted, ~elsewhere, storage, nodes)
    return VolumeSearchResult(conflict, unbound | elsewhere, short, missing, matches, provisions)


def _check_bound_claims(
    claims: Sequence[PersistentVolumeClaim], storage: Storage, nodes: NodeTable
) -> tuple[Mask, Mask]:
    """Return where a volume cannot be used, and where a missing volume was found first."""
    conflict = np.zeros(len(nodes), dtype=np.bool_)
    for claim in claims:
        volume = storage.volume(claim.spec.volume_name)
        if volume is None:
            return conflict, ~conflict
        if not is_usable_everywhere(volume, storage):
            conflict |= ~nodes_with_access(volume, storage, nodes)
    return conflict, np.zeros(len(nodes), dtype=np.bool_)


def is_usable_everywhere(volume: PersistentVolume, storage: Storage) -> bool:
    """Return whether the volume has no constraint on nodes, as most volumes of a small cluster."""
    return volume.spec.node_affinity is None and (not storage.csi_nodes or kind_of(volume) is None)


def nodes_with_access(volume: PersistentVolume, storage: Storage, nodes: NodeTable) -> Mask:
    """Return (nodes,): where a bound volume can be used, with the CSI driver's terms where the node has migrated."""
    kind = kind_of(volume)
    there = _mask(volume_places(volume, nodes), nodes)
    if kind is None:
        return there
    migrated = _migrated_nodes(kind.plugin, storage.csi_nodes, nodes)
    if not migrated.any():
        return there
    by_driver = _mask(nodes_for_terms(migrated_node_terms(volume, kind), nodes), nodes)
    return np.where(migrated, by_driver, there)


def _provisions(
    wanted: Sequence[tuple[PersistentVolumeClaim, Mask]], left: Mask, storage: Storage, nodes: NodeTable
) -> tuple[Mask, Mask, list[Provision]]:
    """Return where volumes cannot be provisioned, where capacity is short, and the possible provisions.

    Only nodes in `left` are evaluated, and each node only up to its first failed check.
    """
    unbound = np.zeros(len(nodes), dtype=np.bool_)
    short = unbound.copy()
    found = []
    for claim, where in wanted:
        if not (where & left).any():
            continue
        storage_class = storage.classes.get(claim.storage_class)
        if storage_class is None:
            raise NoStorageClass(f'failed to find storage class "{claim.storage_class}"')
        here = where & left
        bad = here & ~_can_provision(storage_class, nodes)
        full = here & ~bad & ~_has_capacity(claim, storage_class, storage, nodes)
        unbound |= bad
        short |= full
        left = left & ~bad & ~full
        found.append((claim, where))
    return unbound, short, [Provision(claim, where & left) for claim, where in found]


def _can_provision(storage_class: StorageClass, nodes: NodeTable) -> Mask:
    """Return (nodes,): whether the class provisions volumes for the node."""
    if storage_class.provisioner in ("", _NO_PROVISIONER):
        return np.zeros(len(nodes), dtype=np.bool_)
    if not storage_class.allowed_topologies:
        return np.ones(len(nodes), dtype=np.bool_)
    terms = tuple(
        Term(tuple(NodeSelectorRequirement(each.key, "In", each.values) for each in wire.match_label_expressions), ())
        for wire in storage_class.allowed_topologies
    )
    return _mask(nodes_for_terms(terms, nodes), nodes)


def _has_capacity(
    claim: PersistentVolumeClaim, storage_class: StorageClass, storage: Storage, nodes: NodeTable
) -> Mask:
    """Return (nodes,): whether capacity is sufficient. It is checked only if the driver reports its capacity."""
    driver = storage.csi_drivers.get(storage_class.provisioner)
    if claim.requested_storage is None or driver is None or not driver.spec.storage_capacity:
        return np.ones(len(nodes), dtype=np.bool_)
    room: Mask = _largest_volume_bytes(storage_class.metadata.name, storage, nodes) >= _bytes(claim.requested_storage)
    return room


def capacity_for(claim: PersistentVolumeClaim, storage: Storage, nodes: NodeTable) -> Amounts | None:
    """Return (nodes,): the driver's capacity where it is sufficient, else -1; None if the driver does not report it.

    Of several capacity objects the first by name counts; upstream takes any.
    """
    storage_class = storage.classes.get(claim.storage_class)
    driver = None if storage_class is None else storage.csi_drivers.get(storage_class.provisioner)
    if claim.requested_storage is None or driver is None or not driver.spec.storage_capacity:
        return None
    found = np.full(len(nodes), -1, dtype=np.int64)
    for capacity in _capacities(claim.storage_class, storage):
        if capacity.largest_volume is not None and capacity.largest_volume.value >= claim.requested_storage.value:
            where = _reachable_nodes(capacity, nodes)
            where = where[found[where] < 0]
            found[where] = 0 if capacity.capacity is None else _bytes(capacity.capacity)
    return found


def _largest_volume_bytes(storage_class: str, storage: Storage, nodes: NodeTable) -> Amounts:
    """Return (nodes,): the largest volume of the class, in bytes, that can be provisioned; -1 where none can."""
    known_now: PersistentMap[Name, CSIStorageCapacity] = storage.capacities.get(storage_class, EMPTY_MAP)

    def found() -> Amounts:
        largest = np.full(len(nodes), -1, dtype=np.int64)
        for capacity in known_now.values():
            if capacity.largest_volume is not None:
                where = _reachable_nodes(capacity, nodes)
                largest[where] = np.maximum(largest[where], _bytes(capacity.largest_volume))
        return largest

    return _cached_result(("VolumeBinding", "room", storage_class), known_now, found, nodes)


def _bytes(size: Quantity) -> int:
    """Return the size in bytes, limited to 63 bits."""
    return min(size.value, _MOST)


def _capacities(storage_class: str, storage: Storage) -> list[CSIStorageCapacity]:
    known = storage.capacities.get(storage_class, EMPTY_MAP)
    return [known[name] for name in sorted(known)]


def _reachable_nodes(capacity: CSIStorageCapacity, nodes: NodeTable) -> Indices:
    """Return the nodes that can use the capacity. As upstream, an invalid selector selects none."""
    try:
        return selected_nodes(selector_of(capacity.node_topology), nodes)
    except BadSelector:
        return np.zeros(0, dtype=np.intp)


def _migrated_nodes(plugin: str, csi_nodes: PersistentMap[str, CSINode], nodes: NodeTable) -> Mask:
    """Return (nodes,): where a CSI driver serves the volumes of an in-tree plugin."""

    def found() -> Mask:
        where = np.zeros(len(nodes), dtype=np.bool_)
        for name, csi_node in csi_nodes.items():
            if name in nodes.index and plugin in csi_node.migrated_plugins:
                where[nodes.index[name]] = True
        return where

    return _cached_result(("VolumeBinding", "migrated", plugin), csi_nodes, found, nodes)


def _cached_result(key: tuple[str, ...], known_now: object, found: Callable[[], T], nodes: NodeTable) -> T:
    """Return the cached result while `known_now` is the same object."""
    kept: dict[tuple[str, ...], tuple[object, T]] = nodes.plan(("VolumeBinding",), dict)
    held = kept.get(key)
    if held is None or held[0] is not known_now:
        held = kept[key] = known_now, found()
    return held[1]


def _mask(where: Indices, nodes: NodeTable) -> Mask:
    mask = np.zeros(len(nodes), dtype=np.bool_)
    mask[where] = True
    return mask
