"""Queueing hints of VolumeBinding (upstream volume_binding.go EventsToRegister)."""

from __future__ import annotations

from typing import Final

from situate.framework.plugin_api.events import Change, EventHint, Hint, Subject
from situate.framework.pod.pods import PodInfo
from situate.objects.kinds.storage import (
    MIGRATED_PLUGINS,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
)
from situate.plugins.volume_hints import uses_claim


def _hint_after_class(pod: PodInfo, old: StorageClass | None, new: StorageClass) -> Hint:  # noqa: ARG001
    return Hint.QUEUE if old is None or old.allowed_topologies != new.allowed_topologies else Hint.SKIP


def _hint_after_claim(pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> Hint:  # noqa: ARG001
    return Hint.QUEUE if uses_claim(pod, new) else Hint.SKIP


def _hint_after_csi_node(pod: PodInfo, old: CSINode | None, new: CSINode) -> Hint:  # noqa: ARG001
    """Queue if CSI drivers on the node now serve other in-tree plugins."""
    if old is None:
        return Hint.QUEUE
    before, after = (each.metadata.annotations.get(MIGRATED_PLUGINS, "") for each in (old, new))
    return Hint.QUEUE if before != after else Hint.SKIP


def _hint_after_csi_driver(pod: PodInfo, old: CSIDriver, new: CSIDriver) -> Hint:
    """Queue if the driver of one of the Pod's own volumes no longer reports its capacity."""
    concerned = any(volume.csi is not None and volume.csi.driver == new.metadata.name for volume in pod.volumes)
    freed = old.spec.storage_capacity and not new.spec.storage_capacity
    return Hint.QUEUE if concerned and freed else Hint.SKIP


def _hint_after_capacity(pod: PodInfo, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> Hint:  # noqa: ARG001
    if old is None:
        return Hint.QUEUE
    if new.largest_volume is None:
        return Hint.SKIP
    return (
        Hint.QUEUE if old.largest_volume is None or new.largest_volume.value > old.largest_volume.value else Hint.SKIP
    )


HINTS: Final = (
    EventHint(Subject.STORAGE_CLASS, Change.ADD | Change.UPDATE, _hint_after_class),
    EventHint(Subject.CLAIM, Change.ADD | Change.UPDATE, _hint_after_claim),
    EventHint(Subject.VOLUME, Change.ADD | Change.UPDATE),
    EventHint(Subject.NODE, Change.ADD | Change.LABELS),
    EventHint(Subject.CSI_NODE, Change.ADD | Change.UPDATE, _hint_after_csi_node),
    EventHint(Subject.CSI_DRIVER, Change.UPDATE, _hint_after_csi_driver),
    EventHint(Subject.STORAGE_CAPACITY, Change.ADD | Change.UPDATE, _hint_after_capacity),
)
