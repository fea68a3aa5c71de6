"""The number of volumes of each CSI driver on each node, updated with Pods and storage objects.

A volume counts once on a node, for any number of Pods there. A volume attached without a Pod counts too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from situate.framework.pod.pods import PodInfo
from situate.framework.snapshot.node_load import Amounts
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.persistent_map import EMPTY_MAP
from situate.framework.volumes.storage import Name, Storage
from situate.framework.volumes.volume_use import VolumeUse, claim_key, claim_name, own_claim_key
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.storage import PersistentVolumeClaim
from situate.plugins.in_tree_volumes import DRIVER_OF, NOT_COUNTED, BadSource, csi_volume, inline_volume

DriverVolume = tuple[str, str]
"""The driver, and its handle of the volume."""
_UNPROVISIONED_PREFIX: Final = "\0claim "
"""Prefix of the handle of a volume that is not provisioned yet; no driver's handle starts with it."""


class ForeignClaim(Exception):
    """The claim with the name of the Pod's generated claim belongs to another owner."""

    def __init__(self, pod: PodInfo, claim: str) -> None:
        super().__init__(f"PVC {pod.namespace}/{claim} was not created for pod {pod} (pod is not owner)")


def is_controlled_by(metadata: ObjectMeta, pod: PodInfo) -> bool:
    """Return whether the Pod is the controller of the object."""
    owner = metadata.controller
    return owner is not None and owner.uid == pod.uid


def volumes_of(pod: PodInfo, storage: Storage) -> frozenset[DriverVolume]:
    """Return the known volumes that a placed Pod adds to its node. A volume that cannot be resolved does not count."""
    found: set[DriverVolume] = set()
    for volume in pod.volumes:
        name = claim_name(pod.name, volume)
        try:
            if not name:
                attached = inline_volume(volume)
            else:
                claim = storage.claims.get((pod.namespace, name))
                foreign = (
                    claim is not None and volume.ephemeral is not None and not is_controlled_by(claim.metadata, pod)
                )
                attached = None if claim is None or foreign else volume_of(claim, storage)
        except BadSource:
            attached = None
        if attached is not None:
            found.add(attached)
    return frozenset(found)


def volume_of(claim: PersistentVolumeClaim, storage: Storage) -> DriverVolume | None:
    """Return the claim's volume, or the one to be provisioned; None if no CSI driver attaches it."""
    volume = storage.volumes.get(claim.spec.volume_name)
    if volume is not None:
        try:
            attached = csi_volume(volume)
        except BadSource:
            return None
        return attached if attached is not None and all(attached) else None
    storage_class = storage.classes.get(claim.storage_class)
    if storage_class is None:
        return None
    provisioner = storage_class.provisioner
    driver = "" if provisioner in NOT_COUNTED else DRIVER_OF.get(provisioner, provisioner)
    handle = f"{_UNPROVISIONED_PREFIX}{claim.metadata.namespace}/{claim.metadata.name}"
    return (driver, handle) if driver else None


@dataclass(frozen=True, slots=True)
class _Row:
    """The volumes on one node."""

    of_pod: Mapping[str, frozenset[DriverVolume]]
    """By a Pod's uid: the volumes that it uses."""
    used: frozenset[DriverVolume]
    """The volumes that any Pod uses."""
    attached: frozenset[DriverVolume]
    """The volumes with a VolumeAttachment, used or not."""

    @property
    def all_volumes(self) -> frozenset[DriverVolume]:
        return self.used | self.attached


_EMPTY_ROW: Final = _Row({}, frozenset(), frozenset())


class AttachedVolumes:
    """Volume counts per row of one owner of placed Pods; mutable, and passed the current storage on each update."""

    def __init__(self) -> None:
        self.touched: set[int] = set()
        self._storage: Storage | None = None
        self._counts: dict[str, Amounts] = {}
        self._rows: dict[int, _Row] = {}
        self._rows_by_used_volume: dict[DriverVolume, set[int]] = {}
        """By volume: the rows whose Pods use it."""
        self._rows_by_volume_name: dict[str, set[int]] = {}
        """By name of a persistent volume: the rows to update with it; may include rows that no longer depend on it."""

    def counts_by_row(self, driver: str, rows: int) -> Amounts:
        """Return (rows,): the number of volumes of the driver."""
        known = self._counts.get(driver)
        if known is None:
            known = self._counts[driver] = np.zeros(rows, dtype=np.int64)
        return known

    def rows_using(self, volume: DriverVolume) -> Iterable[int]:
        """Return the rows whose Pods already use the volume."""
        return self._rows_by_used_volume.get(volume, ())

    def catch_up(self, use: VolumeUse, storage: Storage, names: Sequence[str], index: Mapping[str, int]) -> None:
        """Update the rows that may have changed. `index` maps each name to its row."""
        for row in self._stale_rows(use, storage, index):
            self._update_row(row, names, use.users(row), storage, again=True)
        for row in self.touched:
            self._update_row(row, names, use.users(row), storage, again=False)
        self._storage = storage
        self.touched.clear()

    def _stale_rows(self, use: VolumeUse, storage: Storage, index: Mapping[str, int]) -> Iterable[int]:
        """Return the rows whose storage has changed."""
        before = self._storage
        if before is storage:
            return ()
        if before is None or before.classes is not storage.classes:
            attached = storage.attachments
            named = (name for name in index if name in attached) if len(index) < len(attached) else iter(attached)
            return {*use.rows, *self._rows, *(index[name] for name in named if name in index)}
        stale: set[int] = set()
        claims: set[Name] = before.claims.differing_keys(storage.claims)
        for name in before.volumes.differing_keys(storage.volumes):
            stale |= self._rows_by_volume_name.get(name, set())
            if name not in storage.volumes:
                self._rows_by_volume_name.pop(name, None)  # rows that still depend on it register again on update
        for claim in claims:
            stale |= use.rows_using(claim_key(*claim)).keys() | use.rows_using(own_claim_key(*claim)).keys()
        return stale | {index[name] for name in before.attachments.differing_keys(storage.attachments) if name in index}

    def _update_row(
        self, row: int, names: Sequence[str], pods: Iterable[PodInfo], storage: Storage, *, again: bool
    ) -> None:
        """Update a row. `again` means that storage may have changed, not only Pods."""
        before = self._rows.get(row, _EMPTY_ROW)
        known = {} if again else before.of_pod
        of_pod: dict[str, frozenset[DriverVolume]] = {}
        for pod in pods:
            of_pod[pod.uid] = known.get(pod.uid) or volumes_of(pod, storage)
            if pod.uid not in known:
                for name in _volume_names_of(pod, storage):
                    self._rows_by_volume_name.setdefault(name, set()).add(row)
        used = frozenset[DriverVolume]().union(*of_pod.values())
        after = _Row(of_pod, used, self._volumes_attached_to(row, names[row], storage) if again else before.attached)
        for driver, _ in before.all_volumes - after.all_volumes:
            self.counts_by_row(driver, len(names))[row] -= 1
        for driver, _ in after.all_volumes - before.all_volumes:
            self.counts_by_row(driver, len(names))[row] += 1
        for each in before.used - used:
            self._rows_by_used_volume[each].discard(row)
            if not self._rows_by_used_volume[each]:
                del self._rows_by_used_volume[each]
        for each in used - before.used:
            self._rows_by_used_volume.setdefault(each, set()).add(row)
        self._rows[row] = after
        if not after.all_volumes and not of_pod:
            del self._rows[row]

    def _volumes_attached_to(self, row: int, node: str, storage: Storage) -> frozenset[DriverVolume]:
        """Return the volumes that are attached to the node, used or not."""
        found: set[DriverVolume] = set()
        for attachment in storage.attachments.get(node, EMPTY_MAP).values():
            name = attachment.spec.source.persistent_volume_name
            if not attachment.spec.attacher or not name:
                continue
            self._rows_by_volume_name.setdefault(name, set()).add(row)
            volume = storage.volumes.get(name)
            if volume is not None and volume.spec.csi is not None:
                found.add((attachment.spec.attacher, volume.spec.csi.volume_handle))
        return frozenset(found)


def _volume_names_of(pod: PodInfo, storage: Storage) -> Iterable[str]:
    """Yield the persistent volumes of the Pod's claims."""
    for volume in pod.volumes:
        claim = storage.claims.get((pod.namespace, claim_name(pod.name, volume)))
        if claim is not None and claim.spec.volume_name:
            yield claim.spec.volume_name


def attached_volumes(snapshot: Snapshot) -> AttachedVolumes:
    """Return the updated volume counts of the snapshot's rows."""
    use, names = snapshot.volume_use, snapshot.row_names
    attached = use.row_cache(AttachedVolumes, AttachedVolumes)
    index = snapshot.nodes.index
    if names is not snapshot.nodes.names:
        index = {name: row for row, name in enumerate(names)}
    attached.catch_up(use, snapshot.catalog.storage, names, index)
    return attached
