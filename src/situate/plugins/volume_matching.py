"""Which volume a claim would get on each node (component-helpers storage/volume pv_helpers.go FindMatchingVolume).

A volume that is meant for the claim comes before all others, and then it is that one or none. Otherwise it is the
smallest that will do, by name if several are as small. Upstream takes any of these; its list has no order.
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
from situate.plugins.volume_places import places

NONE: Final = -1
_Places = dict[int, tuple[PersistentVolume, Indices]]
"""By identity."""
_KEPT: Final = 2**16
"""Volumes whose places are known by identity, before they are looked up by their terms again."""


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """What one claim would get."""

    claim: PersistentVolumeClaim
    volumes: Sequence[PersistentVolume]
    choice: NDArray[np.int32]
    """(nodes,): the index in `volumes`; `NONE` where none will do."""

    @property
    def found(self) -> Mask:
        """(nodes,): where one will do."""
        found: Mask = self.choice != NONE
        return found

    def at(self, node: int) -> PersistentVolume | None:
        choice = int(self.choice[node])
        return None if choice == NONE else self.volumes[choice]


def match_claims(claims: Iterable[PersistentVolumeClaim], storage: Storage, nodes: NodeTable) -> list[Match]:
    """For each claim, the smallest first; no node gets the same volume twice. `BadSelector` of a claim's selector."""
    found: list[Match] = []
    for claim in sorted(claims, key=_requested):
        found.append(_match(claim, storage, nodes, found))
    return found


def volume_places(volume: PersistentVolume, nodes: NodeTable) -> Indices:
    """The nodes where the volume can be used, ascending."""
    return _places(volume, _kept(nodes), nodes)


def _kept(nodes: NodeTable) -> _Places:
    return nodes.plan(("volumes",), dict)


def _places(volume: PersistentVolume, kept: _Places, nodes: NodeTable) -> Indices:
    known = kept.get(id(volume))
    if known is None:
        if len(kept) >= _KEPT:
            kept.clear()
        known = kept[id(volume)] = volume, places(node_terms(volume), nodes)  # kept with it: the id stays its own
    return known[1]


def _requested(claim: PersistentVolumeClaim) -> int:
    requested = claim.requested
    return 0 if requested is None else requested.nano_value


def _match(claim: PersistentVolumeClaim, storage: Storage, nodes: NodeTable, earlier: Sequence[Match]) -> Match:
    choice = np.full(len(nodes), NONE, dtype=np.int32)
    meant = [
        volume
        for volume in storage.volumes_for(claim)
        if volume.storage_class == claim.storage_class and _will_do(volume, claim)
    ]
    if meant:
        choice[volume_places(meant[0], nodes)] = 0
        return Match(claim, meant, choice)
    volumes = _unclaimed(claim, storage)
    taken = [({volume.metadata.name: place for place, volume in enumerate(each.volumes)}, each) for each in earlier]
    open_nodes = len(nodes)
    kept = _kept(nodes)
    for place, volume in enumerate(volumes):
        if not open_nodes:
            break
        where = _places(volume, kept, nodes)
        if len(where) == 1:
            node = where[0]
            if choice[node] != NONE or (taken and _is_taken(volume, int(node), taken)):
                continue
            choice[node] = place
            open_nodes -= 1
            continue
        free = choice[where] == NONE
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


def _unclaimed(claim: PersistentVolumeClaim, storage: Storage) -> list[PersistentVolume]:
    """Those that nobody has claimed or been promised, and that will do; the smallest first."""
    listed = storage.unclaimed.get(claim.storage_class, ())
    enough = bisect_left(listed, _requested(claim), key=lambda volume: volume.size.nano_value)
    wire = claim.spec.selector
    selector = EVERYTHING if wire is None else selector_of(wire, "spec.selector")
    modes = set(claim.spec.access_modes)
    mode, attributes = claim.spec.volume_mode, claim.spec.volume_attributes_class_name
    gone = {name for name in storage.promises.volumes if _is_promised(name, storage)}
    # What `_will_do` says, spelt out: there may be as many volumes as nodes.
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


def _is_promised(name: str, storage: Storage) -> bool:
    volume = storage.volume(name)
    return volume is not None and volume.spec.claim_ref is not None


def _will_do(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """What a volume must be that is meant for the claim, as any other."""
    spec, wanted = volume.spec, claim.spec
    return (
        volume.size.nano_value >= _requested(claim)
        and spec.volume_mode == wanted.volume_mode
        and spec.volume_attributes_class_name == wanted.volume_attributes_class_name
        and volume.metadata.deletion_timestamp is None
    )
