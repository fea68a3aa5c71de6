"""The volume for a claim on each node (component-helpers storage/volume pv_helpers.go FindMatchingVolume).

If a volume is reserved for the claim, only this volume counts. Otherwise it is the smallest sufficient volume, and the
first by name among equal sizes. Upstream takes any of these, because its list has no order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.volumes.storage import Storage
from situate.objects.kinds.storage import PersistentVolume, PersistentVolumeClaim
from situate.objects.selection.label_selectors import EVERYTHING, selector_of
from situate.plugins.in_tree_volumes import node_terms
from situate.plugins.volume_places import nodes_for_terms

NO_VOLUME: Final = -1
_Places = dict[int, tuple[PersistentVolume, Indices]]
"""By identity of the volume."""
_CACHED_PLACES_LIMIT: Final = 2**16
"""Number of volumes whose places are cached by identity, before they are looked up by their terms again."""


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """The volumes for one claim."""

    claim: PersistentVolumeClaim
    volumes: Sequence[PersistentVolume]
    choice: NDArray[np.int32]
    """(nodes,): the index in `volumes`; `NO_VOLUME` without a matching volume."""

    @property
    def nodes_with_volume(self) -> Mask:
        """(nodes,): the nodes with a matching volume."""
        found: Mask = self.choice != NO_VOLUME
        return found

    def volume_at(self, node: int) -> PersistentVolume | None:
        choice = int(self.choice[node])
        return None if choice == NO_VOLUME else self.volumes[choice]


def match_claims(claims: Iterable[PersistentVolumeClaim], storage: Storage, nodes: NodeTable) -> list[Match]:
    """Match each claim, the smallest first. No volume is used twice on a node. `BadSelector` of a claim's selector."""
    found: list[Match] = []
    for claim in sorted(claims, key=_requested_size):
        found.append(_match(claim, storage, nodes, found))
    return found


def volume_places(volume: PersistentVolume, nodes: NodeTable) -> Indices:
    """Return the nodes where the volume can be used, ascending."""
    return _places(volume, _cached_places(nodes), nodes)


def _cached_places(nodes: NodeTable) -> _Places:
    return nodes.plan(("volumes",), dict)


def _places(volume: PersistentVolume, kept: _Places, nodes: NodeTable) -> Indices:
    known = kept.get(id(volume))
    if known is None:
        if len(kept) >= _CACHED_PLACES_LIMIT:
            kept.clear()
        known = kept[id(volume)] = (
            volume,
            nodes_for_terms(node_terms(volume), nodes),
        )  # referenced here, so the id stays valid
    return known[1]


def _requested_size(claim: PersistentVolumeClaim) -> int:
    requested = claim.requested_storage
    return 0 if requested is None else requested.nano_value


def _match(claim: PersistentVolumeClaim, storage: Storage, nodes: NodeTable, earlier: Sequence[Match]) -> Match:
    choice = np.full(len(nodes), NO_VOLUME, dtype=np.int32)
    meant = [
        volume
        for volume in storage.volumes_for(claim)
        if volume.storage_class == claim.storage_class and _is_suitable(volume, claim)
    ]
    if meant:
        choice[volume_places(meant[0], nodes)] = 0
        return Match(claim, meant, choice)
    volumes = _available_volumes(claim, storage)
    taken = [({volume.metadata.name: place for place, volume in enumerate(each.volumes)}, each) for each in earlier]
    open_nodes = len(nodes)
    kept = _cached_places(nodes)
    for place, volume in enumerate(volumes):
        if not open_nodes:
            break
        where = _places(volume, kept, nodes)
        if len(where) == 1:
            node = where[0]
            if choice[node] != NO_VOLUME or (taken and _is_taken(volume, int(node), taken)):
                continue
            choice[node] = place
            open_nodes -= 1
            continue
        free = choice[where] == NO_VOLUME
        for names, match in taken:
            number = names.get(volume.metadata.name)
            if number is not None:
                free &= match.choice[where] != number
        chosen = where[free]
        choice[chosen] = place
        open_nodes -= len(chosen)
    return Match(claim, volumes, choice)


def _is_taken(volume: PersistentVolume, node: int, taken: Sequence[tuple[dict[str, int], Match]]) -> bool:
    return any(names.get(volume.metadata.name) == int(match.choice[node]) for names, match in taken)


def _available_volumes(claim: PersistentVolumeClaim, storage: Storage) -> list[PersistentVolume]:
    """Return the matching volumes without claim and reservation, the smallest first."""
    listed = storage.unclaimed.get(claim.storage_class, ())
    enough = bisect_left(listed, _requested_size(claim), key=lambda volume: volume.size.nano_value)
    wire = claim.spec.selector
    selector = EVERYTHING if wire is None else selector_of(wire, "spec.selector")
    modes = set(claim.spec.access_modes)
    mode, attributes = claim.spec.volume_mode, claim.spec.volume_attributes_class_name
    gone = {name for name in storage.promises.volumes if _is_reserved(name, storage)}
    # The check of `_is_suitable`, inlined: there may be as many volumes as nodes.
    return [
        volume
        for volume in listed[enough:]
        if volume.status.phase == "Available"
        and volume.spec.volume_mode == mode
        and volume.spec.volume_attributes_class_name == attributes
        and volume.metadata.deletion_timestamp is None
        and volume.metadata.name not in gone
        and modes.issubset(volume.spec.access_modes)
        and (wire is None or selector.matches(volume.metadata.labels))
    ]


def _is_reserved(name: str, storage: Storage) -> bool:
    volume = storage.volume(name)
    return volume is not None and volume.spec.claim_ref is not None


def _is_suitable(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume reserved for the claim meets the conditions for every volume."""
    spec, wanted = volume.spec, claim.spec
    return (
        volume.size.nano_value >= _requested_size(claim)
        and spec.volume_mode == wanted.volume_mode
        and spec.volume_attributes_class_name == wanted.volume_attributes_class_name
        and volume.metadata.deletion_timestamp is None
    )
