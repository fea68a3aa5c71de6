"""What a pod's claims mean for each node, and which volumes it would get there (upstream volumebinding binder.go).

A bound claim's volume has to be usable on the node. A claim that waits for its pod gets a volume that there is, or one
is made for it, where its class allows that and there is room.
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
from situate.plugins.volume_places import places, selected

T = TypeVar("T")

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


_MOST: Final = 2**63 - 1


class NoStorageClass(LookupError):
    """The class of a claim has gone in the midst of things."""


@dataclass(frozen=True, slots=True, eq=False)
class Provision:
    """A claim for which a volume would be made."""

    claim: PersistentVolumeClaim
    where: Mask
    """(nodes,): where it has none otherwise, and one can be made."""


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """(nodes,) each: why a node will not do, and what the pod would get there."""

    conflict: Mask
    """A bound volume cannot be used there."""
    unbound: Mask
    """A claim finds no volume, and none can be made."""
    short: Mask
    """There is no room to make one."""
    missing: Mask
    """A bound volume does not exist."""
    matches: Sequence[Match] = ()
    provisions: Sequence[Provision] = ()

    @property
    def passes(self) -> Mask:
        passes: Mask = ~(self.conflict | self.unbound | self.short | self.missing)
        return passes


def find_volumes(claims: PodClaims, storage: Storage, nodes: NodeTable) -> Finding:
    """For all nodes. What was found last is remembered: a pod's Reserve asks what its Filter has asked.

    `NoStorageClass`, or `BadSelector` of a claim.
    """
    kept: dict[object, tuple[Storage, Finding]] = nodes.plan(("VolumeBinding", "last"), dict)
    asked = tuple(map(id, claims.bound)), tuple(map(id, claims.delayed))  # the storage keeps them
    known = kept.get(asked)
    if known is None or known[0] is not storage:
        kept.clear()
        known = kept[asked] = storage, _find(claims, storage, nodes)
    return known[1]


def _find(claims: PodClaims, storage: Storage, nodes: NodeTable) -> Finding:
    conflict, missing = _bound(claims.bound, storage, nodes)
    none = np.zeros(len(nodes), dtype=np.bool_)
    if not claims.delayed:
        return Finding(conflict, none, none, missing)
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
    wanted = [(claim, ~none) for claim in chosen] + [(match.claim, ~match.found) for match in matches]
    unbound, short, provisions = _provisions(wanted, ~elsewhere, storage, nodes)
    return Finding(conflict, unbound | elsewhere, short, missing, matches, provisions)


def _bound(claims: Sequence[PersistentVolumeClaim], storage: Storage, nodes: NodeTable) -> tuple[Mask, Mask]:
    """Where one of the volumes cannot be used, and where one is found missing before that."""
    conflict = np.zeros(len(nodes), dtype=np.bool_)
    for claim in claims:
        volume = storage.volume(claim.spec.volume_name)
        if volume is None:
            return conflict, ~conflict
        if not usable_everywhere(volume, storage):
            conflict |= ~usable(volume, storage, nodes)
    return conflict, np.zeros(len(nodes), dtype=np.bool_)


def usable_everywhere(volume: PersistentVolume, storage: Storage) -> bool:
    """Whether no node has to be asked; most volumes of a small cluster say nothing about nodes."""
    return volume.spec.node_affinity is None and (not storage.csi_nodes or kind_of(volume) is None)


def usable(volume: PersistentVolume, storage: Storage, nodes: NodeTable) -> Mask:
    """(nodes,): where a bound volume can be used, by way of the CSI driver where the node says so."""
    kind = kind_of(volume)
    there = _mask(volume_places(volume, nodes), nodes)
    if kind is None:
        return there
    migrated = _migrated(kind.plugin, storage.csi_nodes, nodes)
    if not migrated.any():
        return there
    by_driver = _mask(places(migrated_node_terms(volume, kind), nodes), nodes)
    return np.where(migrated, by_driver, there)


def _provisions(
    wanted: Sequence[tuple[PersistentVolumeClaim, Mask]], left: Mask, storage: Storage, nodes: NodeTable
) -> tuple[Mask, Mask, list[Provision]]:
    """Where volumes cannot be made, where there is no room for them, and those that can be; `left` is asked about.

    A node is done with at its first complaint.
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
        bad = here & ~_can_be_made(storage_class, nodes)
        full = here & ~bad & ~_has_room(claim, storage_class, storage, nodes)
        unbound |= bad
        short |= full
        left = left & ~bad & ~full
        found.append((claim, where))
    return unbound, short, [Provision(claim, where & left) for claim, where in found]


def _can_be_made(storage_class: StorageClass, nodes: NodeTable) -> Mask:
    """(nodes,): whether the class makes volumes, and for that node."""
    if storage_class.provisioner in ("", _NO_PROVISIONER):
        return np.zeros(len(nodes), dtype=np.bool_)
    if not storage_class.allowed_topologies:
        return np.ones(len(nodes), dtype=np.bool_)
    terms = tuple(
        Term(tuple(NodeSelectorRequirement(each.key, "In", each.values) for each in wire.match_label_expressions), ())
        for wire in storage_class.allowed_topologies
    )
    return _mask(places(terms, nodes), nodes)


def _has_room(claim: PersistentVolumeClaim, storage_class: StorageClass, storage: Storage, nodes: NodeTable) -> Mask:
    """(nodes,): only a driver that says how much it has can have too little."""
    driver = storage.csi_drivers.get(storage_class.provisioner)
    if claim.requested is None or driver is None or not driver.spec.storage_capacity:
        return np.ones(len(nodes), dtype=np.bool_)
    room: Mask = _largest(storage_class.metadata.name, storage, nodes) >= _bytes(claim.requested)
    return room


def capacity_for(claim: PersistentVolumeClaim, storage: Storage, nodes: NodeTable) -> Amounts | None:
    """(nodes,): how much its driver has where it has enough, -1 where it has not; None if the driver does not say.

    Of several the first by name counts; upstream takes any.
    """
    storage_class = storage.classes.get(claim.storage_class)
    driver = None if storage_class is None else storage.csi_drivers.get(storage_class.provisioner)
    if claim.requested is None or driver is None or not driver.spec.storage_capacity:
        return None
    found = np.full(len(nodes), -1, dtype=np.int64)
    for capacity in _capacities(claim.storage_class, storage):
        if capacity.largest is not None and capacity.largest.value >= claim.requested.value:
            where = _reached(capacity, nodes)
            where = where[found[where] < 0]
            found[where] = 0 if capacity.capacity is None else _bytes(capacity.capacity)
    return found


def _largest(storage_class: str, storage: Storage, nodes: NodeTable) -> Amounts:
    """(nodes,): the largest volume of the class that can be made there, in bytes; -1 where none can."""
    known_now: PersistentMap[Name, CSIStorageCapacity] = storage.capacities.get(storage_class, EMPTY_MAP)

    def found() -> Amounts:
        largest = np.full(len(nodes), -1, dtype=np.int64)
        for capacity in known_now.values():
            if capacity.largest is not None:
                where = _reached(capacity, nodes)
                largest[where] = np.maximum(largest[where], _bytes(capacity.largest))
        return largest

    return _kept(("VolumeBinding", "room", storage_class), known_now, found, nodes)


def _bytes(size: Quantity) -> int:
    """As many as 63 bits hold."""
    return min(size.value, _MOST)


def _capacities(storage_class: str, storage: Storage) -> list[CSIStorageCapacity]:
    known = storage.capacities.get(storage_class, EMPTY_MAP)
    return [known[name] for name in sorted(known)]


def _reached(capacity: CSIStorageCapacity, nodes: NodeTable) -> Indices:
    """The nodes where it can be used; a selector that cannot be read selects none, as upstream."""
    try:
        return selected(selector_of(capacity.node_topology), nodes)
    except BadSelector:
        return np.zeros(0, dtype=np.intp)


def _migrated(plugin: str, csi_nodes: PersistentMap[str, CSINode], nodes: NodeTable) -> Mask:
    """(nodes,): where a CSI driver serves the volumes of an in-tree plugin."""

    def found() -> Mask:
        where = np.zeros(len(nodes), dtype=np.bool_)
        for name, csi_node in csi_nodes.items():
            if name in nodes.index and plugin in csi_node.migrated:
                where[nodes.index[name]] = True
        return where

    return _kept(("VolumeBinding", "migrated", plugin), csi_nodes, found, nodes)


def _kept(key: tuple[str, ...], known_now: object, found: Callable[[], T], nodes: NodeTable) -> T:
    """What was found, as long as `known_now` is the same object."""
    kept: dict[tuple[str, ...], tuple[object, T]] = nodes.plan(("VolumeBinding",), dict)
    held = kept.get(key)
    if held is None or held[0] is not known_now:
        held = kept[key] = known_now, found()
    return held[1]


def _mask(where: Indices, nodes: NodeTable) -> Mask:
    mask = np.zeros(len(nodes), dtype=np.bool_)
    mask[where] = True
    return mask
