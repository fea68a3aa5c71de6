"""What has changed about an object, in the terms that hints understand (upstream pkg/scheduler/framework/events.go)."""

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
    Stored,
    VolumeAttachment,
)


def node_change(old: Node | None, new: Node) -> Change:
    """None is a node that is new; no flag means that nothing changed that matters to scheduling."""
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
    """What has changed about a pod, waiting or in place."""
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


def store(storage: Storage, new: Stored) -> tuple[Storage, tuple[ClusterEvent, ...]]:
    """The storage with an object that is new or has changed, and what the queue has to hear of that.

    Nothing if no more than the version is new: then the object is taken over all the same, for promises about it.
    """
    old = storage.known(new)
    if old is None:
        change = Change.ADD
    else:
        same = replace(old, metadata=replace(old.metadata, resource_version=new.metadata.resource_version)) == new
        change = Change(0) if same else Change.UPDATE
    return storage.with_(new), events_of(_SUBJECTS[type(new)], change, old, new)


def discard(storage: Storage, gone: Stored) -> tuple[Storage, tuple[ClusterEvent, ...]]:
    """The storage without the object, and what the queue has to hear of that."""
    old = storage.known(gone)
    if old is None:
        return storage, ()
    return storage.without(gone), (ClusterEvent(_SUBJECTS[type(gone)], Change.DELETE, old),)


_SUBJECTS: Final[dict[type[Stored], Subject]] = {
    PersistentVolumeClaim: Subject.CLAIM,
    PersistentVolume: Subject.VOLUME,
    StorageClass: Subject.STORAGE_CLASS,
    CSINode: Subject.CSI_NODE,
    CSIDriver: Subject.CSI_DRIVER,
    CSIStorageCapacity: Subject.STORAGE_CAPACITY,
    VolumeAttachment: Subject.VOLUME_ATTACHMENT,
}


def events_of(subject: Subject, change: Change, old: object, new: object) -> tuple[ClusterEvent, ...]:
    """One event with all flags; none if nothing has changed."""
    return (ClusterEvent(subject, change, old, new),) if change else ()
