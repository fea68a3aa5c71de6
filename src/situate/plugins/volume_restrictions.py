"""VolumeRestrictions: disks and claims that only one Pod may use at a time (upstream plugins/volumerestrictions)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.plugin_api.plugin import SKIPPED, PreFiltered
from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import Code, unresolvable_status
from situate.framework.results.verdict import Mask, Verdict, refuse_in_turn
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.volume_use import claim_key, disk_key
from situate.objects.kinds.pods import Volume
from situate.objects.kinds.storage import READ_WRITE_ONCE_POD, PersistentVolumeClaim
from situate.plugins.volume_hints import uses_claim

_DISK: Final = "node(s) had no available disk"
_CLAIM: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


@dataclass(frozen=True, slots=True)
class _State:
    claims: frozenset[str]
    """The Pod's claims with access mode ReadWriteOncePod."""
    in_use: int
    """The number of uses of these claims by other Pods."""


class VolumeRestrictions:
    """A Filter plugin that refuses nodes where an exclusive disk is in use.

    It refuses all nodes while a ReadWriteOncePod claim is in use.
    """

    name = "VolumeRestrictions"
    about_claims = True

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:
        """Check the Pod's claims; skip without exclusive disks and claims in use.

        Claims of ephemeral volumes belong to the Pod itself and are not checked.
        """
        if not pod.volumes:
            return SKIPPED
        storage = snapshot.catalog.storage
        own: set[str] = set()
        for name in _claim_names(pod):
            claim = storage.claim(pod.namespace, name)
            if claim is None:
                return PreFiltered(unresolvable_status(f'persistentvolumeclaim "{name}" not found'))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                own.add(name)
        in_use = sum(bool(snapshot.volume_use.rows_using(claim_key(pod.namespace, name))) for name in own)
        if not in_use and not any(map(disk_key, pod.volumes)):
            return SKIPPED
        return PreFiltered(state=_State(frozenset(own), in_use))

    def add_pod(self, state: _State, pod: PodInfo, other: PodInfo, node: int, snapshot: Snapshot) -> _State:  # noqa: ARG002
        return _State(state.claims, state.in_use + _count_uses(state, pod, other))

    def remove_pod(self, state: _State, pod: PodInfo, other: PodInfo, node: int, snapshot: Snapshot) -> _State:  # noqa: ARG002
        return _State(state.claims, state.in_use - _count_uses(state, pod, other))

    def filter(self, state: _State, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        """Refuse nodes; preemption may help in either case."""
        everywhere = np.full(snapshot.count, state.in_use > 0, dtype=np.bool_)
        return refuse_in_turn(
            (_nodes_with_clash(pod, snapshot), _DISK, Code.UNSCHEDULABLE), (everywhere, _CLAIM, Code.UNSCHEDULABLE)
        )

    def events(self) -> tuple[EventHint, ...]:
        """Return hints for a Pod that releases a disk or claim, a new node, and the Pod's claim."""
        return (
            EventHint(Subject.ASSIGNED_POD, Change.DELETE, _hint_after_pod),
            EventHint(Subject.NODE, Change.ADD),
            EventHint(Subject.CLAIM, Change.ADD, _hint_after_claim),
        )


def volumes_clash(one: Volume, other: Volume) -> bool:
    """Return whether two volumes of different Pods are one disk that both cannot use on a node."""
    if one.gce_persistent_disk is not None and other.gce_persistent_disk is not None:
        gce, gce_of_other = one.gce_persistent_disk, other.gce_persistent_disk
        return gce.pd_name == gce_of_other.pd_name and not (gce.read_only and gce_of_other.read_only)
    if one.aws_elastic_block_store is not None and other.aws_elastic_block_store is not None:
        return one.aws_elastic_block_store.volume_id == other.aws_elastic_block_store.volume_id
    if one.iscsi is not None and other.iscsi is not None:
        return one.iscsi.iqn == other.iscsi.iqn and not (one.iscsi.read_only and other.iscsi.read_only)
    if one.rbd is not None and other.rbd is not None:
        same = (one.rbd.pool, one.rbd.image) == (other.rbd.pool, other.rbd.image)
        shared = not set(one.rbd.monitors).isdisjoint(other.rbd.monitors)
        return same and shared and not (one.rbd.read_only and other.rbd.read_only)
    return False


def _nodes_with_clash(pod: PodInfo, snapshot: Snapshot) -> Mask:
    """Return (nodes,): where a disk of the Pod is in use."""
    use = snapshot.volume_use
    found = np.zeros(len(snapshot.row_names), dtype=np.bool_)
    for volume in pod.volumes:
        key = disk_key(volume)
        for row in use.rows_using(key) if key is not None else ():
            found[row] |= _clashes_with_any(volume, use.users(row))
    return snapshot.take_rows(found)


def _clashes_with_any(volume: Volume, others: Iterable[PodInfo]) -> bool:
    return any(volumes_clash(volume, theirs) for other in others for theirs in other.volumes)


def _claim_names(pod: PodInfo) -> list[str]:
    return [
        volume.persistent_volume_claim.claim_name
        for volume in pod.volumes
        if volume.persistent_volume_claim is not None
    ]


def _count_uses(state: _State, pod: PodInfo, other: PodInfo) -> int:
    """Return the number of uses of the Pod's exclusive claims by another Pod."""
    if other.namespace != pod.namespace:
        return 0
    return sum(name in state.claims for name in _claim_names(other))


def _hint_after_pod(pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:  # noqa: ARG001
    """Queue for released disks of any namespace, and for claims of the Pod's own namespace.

    Upstream does not wake a Pod that waits for a disk used in another namespace.
    """
    freed = any(_clashes_with_any(volume, (old,)) for volume in pod.volumes)
    shared = old.namespace == pod.namespace and not set(_claim_names(pod)).isdisjoint(_claim_names(old))
    return Hint.QUEUE if freed or shared else Hint.SKIP


def _hint_after_claim(pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> Hint:  # noqa: ARG001
    return Hint.QUEUE if uses_claim(pod, new, ephemeral=False) else Hint.SKIP
