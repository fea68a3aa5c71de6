"""Which pods use which volumes, on which nodes.

Most pods use none. So those that do are kept apart, by node and by what they use: whoever asks about a claim or a disk
looks at these alone.
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
"""`claim_key` or `own_claim_key`, or a disk that pods name themselves: its kind, and what it is known by.

Disks of equal keys may still be different ones: an RBD image has its key whatever its monitors.
"""
_NOWHERE: Final[Mapping[int, int]] = MappingProxyType({})


def claim_key(namespace: str, name: str) -> VolumeKey:
    return "claim", namespace, name


def own_claim_key(namespace: str, name: str) -> VolumeKey:
    """Of a claim that is made for the pod that uses it."""
    return "own claim", namespace, name


def claim_name(pod: str, volume: Volume) -> str:
    """The claim that a volume of the pod with this name uses; empty if it uses none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod}-{volume.name}" if volume.ephemeral is not None else ""


def disk_key(volume: Volume) -> VolumeKey | None:
    """Of a disk that may exclude pods from a node; None if it is of another kind."""
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
    """Of all its claims and disks."""
    for volume in pod.volumes:
        key = disk_key(volume)
        if volume.persistent_volume_claim is not None:
            key = claim_key(pod.namespace, volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            key = own_claim_key(pod.namespace, claim_name(pod.name, volume))
        if key is not None:
            yield key


class Derived(Protocol):
    """What somebody has worked out for each row, and keeps up to date."""

    touched: set[int]
    """Rows to which pods with volumes came since, or from which they went."""


D = TypeVar("D", bound=Derived)


class VolumeUse:
    """The pods in place that have volumes; mutable, of one owner. Rows are the owner's."""

    def __init__(self) -> None:
        self._users: dict[int, dict[str, PodInfo]] = {}
        self._rows: dict[VolumeKey, dict[int, int]] = {}
        self._derived: dict[Hashable, Derived] = {}

    def users(self, row: int) -> Collection[PodInfo]:
        """The pods with volumes there."""
        return self._users.get(row, {}).values()

    @property
    def rows(self) -> Collection[int]:
        """Where there are such pods."""
        return self._users.keys()

    def where(self, key: VolumeKey) -> Mapping[int, int]:
        """The rows on which it is used, and how many times."""
        return self._rows.get(key, _NOWHERE)

    def derived(self, key: Hashable, make: Callable[[], D]) -> D:
        """What `make` made once; from then on it is told which rows have been touched."""
        known: D | None = self._derived.get(key)  # type: ignore[assignment]  # a key belongs to one type
        if known is None:
            known = self._derived[key] = make()
        return known

    def move(self, pod: PodInfo, row: int, sign: int) -> None:
        """A pod comes to the row (+1), or leaves it (-1)."""
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
        for each in self._derived.values():
            each.touched.add(row)

    def copy(self) -> VolumeUse:
        """Nothing derived is copied: it is worked out afresh where it is asked for."""
        twin = VolumeUse()
        twin._users = {row: dict(there) for row, there in self._users.items()}
        twin._rows = {key: dict(rows) for key, rows in self._rows.items()}
        return twin

    def moved(self, row_of: NDArray[np.int32]) -> VolumeUse:
        """The same pods on other rows; those whose row is negative are left out."""
        moved = VolumeUse()
        for row, there in self._users.items():
            if row_of[row] >= 0:
                for pod in there.values():
                    moved.move(pod, int(row_of[row]), 1)
        return moved
