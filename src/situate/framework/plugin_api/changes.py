"""Changes of an object, in the terms of queueing hints (upstream pkg/scheduler/framework/events.go)."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from situate.framework.plugin_api.events import Change, ClusterEvent, Subject
from situate.framework.pod.pods import PodInfo
from situate.framework.volumes.storage import Storage
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)


def node_change(old: Node | None, new: Node) -> Change:
    """Return the change of a Node, None meaning a new one. No flag means no change that affects scheduling."""
    if old is None:
        return Change.ADD
    change = Change(0)
    if old.status.allocatable != new.status.allocatable:
        change |= Change.ALLOCATABLE
    if old.metadata.labels != new.metadata.labels:
        change |= Change.LABELS
    if old.spec.taints != new.spec.taints or old.spec.unschedulable != new.spec.unschedulable:
        change |= Change.TAINTS
    if _conditions(old) != _conditions(new):
        change |= Change.CONDITIONS
    if old.metadata.annotations != new.metadata.annotations:
        change |= Change.ANNOTATIONS
    if old.status.declared_features != new.status.declared_features:
        change |= Change.FEATURES
    return change


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def pod_change(old: PodInfo, new: PodInfo) -> Change:
    """Return the change of a Pod, pending or placed."""
    change = Change(0)
    if old.labels != new.labels:
        change |= Change.LABELS
    before, after = old.template.request.amounts, new.template.request.amounts
    if any(after.get(name, 0) < value for name, value in before.items()):
        change |= Change.SCALE_DOWN
    if old.template.tolerations != new.template.tolerations:
        change |= Change.TOLERATIONS
    if old.pod.spec.scheduling_gates and not new.pod.spec.scheduling_gates:
        change |= Change.GATES_ELIMINATED
    return change


def store(storage: Storage, new: StorageObject) -> tuple[Storage, tuple[ClusterEvent, ...]]:
    """Return the storage with a new or changed object, and the events for the queue.

    There is no event if only the resourceVersion differs. The object is still stored, because reservations refer to its
    version.
    """
    old = storage.stored_object(new)
    if old is None:
        change = Change.ADD
    else:
        same = replace(old, metadata=replace(old.metadata, resource_version=new.metadata.resource_version)) == new
        change = Change(0) if same else Change.UPDATE
    return storage.with_object(new), events_of(_SUBJECTS[type(new)], change, old, new)


def discard(storage: Storage, gone: StorageObject) -> tuple[Storage, tuple[ClusterEvent, ...]]:
    """Return the storage without the object, and the events for the queue."""
    old = storage.stored_object(gone)
    if old is None:
        return storage, ()
    return storage.without_object(gone), (ClusterEvent(_SUBJECTS[type(gone)], Change.DELETE, old),)


_SUBJECTS: Final[dict[type[StorageObject], Subject]] = {
    PersistentVolumeClaim: Subject.CLAIM,
    PersistentVolume: Subject.VOLUME,
    StorageClass: Subject.STORAGE_CLASS,
    CSINode: Subject.CSI_NODE,
    CSIDriver: Subject.CSI_DRIVER,
    CSIStorageCapacity: Subject.STORAGE_CAPACITY,
    VolumeAttachment: Subject.VOLUME_ATTACHMENT,
}


def events_of(subject: Subject, change: Change, old: object, new: object) -> tuple[ClusterEvent, ...]:
    """Return one event with all flags; none without a change."""
    return (ClusterEvent(subject, change, old, new),) if change else ()
