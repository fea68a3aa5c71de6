"""The volumes that Pods use, and the nodes of these Pods.

Most Pods use no volumes. The others are listed separately, by node and by volume. A search for the users of a claim or
disk reads only these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from situate.framework.pod.pods import PodInfo
from situate.objects.kinds.pods import Volume

VolumeKey: TypeAlias = tuple[str, ...]
"""A `claim_key` or `own_claim_key`, or the kind and identity of a disk that Pods name directly.

Disks with equal keys may still differ: the key of an RBD image does not include its monitors.
"""
_NO_ROWS: Final[Mapping[int, int]] = MappingProxyType({})


def claim_key(namespace: str, name: str) -> VolumeKey:
    return "claim", namespace, name


def own_claim_key(namespace: str, name: str) -> VolumeKey:
    """Return the key of a claim that is created for the Pod that uses it."""
    return "own claim", namespace, name


def claim_name(pod: str, volume: Volume) -> str:
    """Return the claim that a volume of the Pod with this name uses; empty if there is none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod}-{volume.name}" if volume.ephemeral is not None else ""


def disk_key(volume: Volume) -> VolumeKey | None:
    """Return the key of a disk whose users may exclude a Pod from a node; None for other kinds of volume."""
    if volume.gce_persistent_disk is not None:
        return "gce", volume.gce_persistent_disk.pd_name
    if volume.aws_elastic_block_store is not None:
        return "ebs", volume.aws_elastic_block_store.volume_id
    if volume.iscsi is not None:
        return "iscsi", volume.iscsi.iqn
    if volume.rbd is not None:
        return "rbd", volume.rbd.pool, volume.rbd.image
    return None


def volume_keys(pod: PodInfo) -> Iterator[VolumeKey]:
    """Yield the keys of all claims and disks of the Pod."""
    for volume in pod.volumes:
        key = disk_key(volume)
        if volume.persistent_volume_claim is not None:
            key = claim_key(pod.namespace, volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            key = own_claim_key(pod.namespace, claim_name(pod.name, volume))
        if key is not None:
            yield key


class RowCache(Protocol):
    """Cached values per row that their owner updates."""

    touched: set[int]
    """Rows that Pods with volumes have joined or left since the last update."""


D = TypeVar("D", bound=RowCache)


class VolumeUse:
    """The placed Pods with volumes, by row of the owner; mutable, of one owner."""

    def __init__(self) -> None:
        self._users: dict[int, dict[str, PodInfo]] = {}
        self._rows: dict[VolumeKey, dict[int, int]] = {}
        self._row_caches: dict[Hashable, RowCache] = {}

    def users(self, row: int) -> Collection[PodInfo]:
        """Return the Pods with volumes on this row."""
        return self._users.get(row, {}).values()

    @property
    def rows(self) -> Collection[int]:
        """The rows that have such Pods."""
        return self._users.keys()

    def rows_using(self, key: VolumeKey) -> Mapping[int, int]:
        """Return the rows on which the volume is used, with the number of uses."""
        return self._rows.get(key, _NO_ROWS)

    def row_cache(self, key: Hashable, make: Callable[[], D]) -> D:
        """Return the result of `make`, created once. From then on, changed rows are added to its `touched`."""
        known: D | None = self._row_caches.get(key)  # type: ignore[assignment]  # a key belongs to one type
        if known is None:
            known = self._row_caches[key] = make()
        return known

    def move(self, pod: PodInfo, row: int, sign: int) -> None:
        """Add a Pod to the row (+1), or remove it (-1)."""
        if sign > 0:
            self._users.setdefault(row, {})[pod.uid] = pod
        else:
            there = self._users[row]
            del there[pod.uid]
            if not there:
                del self._users[row]
        for key in volume_keys(pod):
            rows = self._rows.setdefault(key, {})
            rows[row] = rows.get(row, 0) + sign
            if not rows[row]:
                del rows[row]
                if not rows:
                    del self._rows[key]
        for each in self._row_caches.values():
            each.touched.add(row)

    def copy(self) -> VolumeUse:
        """Return a copy without derived values, which are computed again on demand."""
        twin = VolumeUse()
        twin._users = {row: dict(there) for row, there in self._users.items()}
        twin._rows = {key: dict(rows) for key, rows in self._rows.items()}
        return twin

    def remap_rows(self, row_of: NDArray[np.int32]) -> VolumeUse:
        """Return the same Pods on other rows, without those whose new row is negative."""
        moved = VolumeUse()
        for row, there in self._users.items():
            if row_of[row] >= 0:
                for pod in there.values():
                    moved.move(pod, int(row_of[row]), 1)
        return moved
