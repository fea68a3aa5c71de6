"""Cluster events, as the queue sees them (upstream pkg/scheduler/framework/types.go ClusterEvent)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, Flag, auto
from functools import cache
from typing import Any, Final, TypeAlias

from situate.framework.pod.pods import PodInfo


class Subject(Enum):
    """The kind of object that an event is about."""

    NODE = "Node"
    ASSIGNED_POD = "AssignedPod"
    POD = "Pod"
    """The pending Pod itself."""
    CLAIM = "PersistentVolumeClaim"
    VOLUME = "PersistentVolume"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    STORAGE_CAPACITY = "CSIStorageCapacity"
    VOLUME_ATTACHMENT = "VolumeAttachment"
    RESOURCE_CLAIM = "ResourceClaim"
    RESOURCE_SLICE = "ResourceSlice"
    DEVICE_CLASS = "DeviceClass"
    POD_GROUP = "PodGroup"
    ANYTHING = "*"


class Change(Flag):
    """The kinds of change; an event may have several."""

    ADD = auto()
    DELETE = auto()
    ALLOCATABLE = auto()
    LABELS = auto()
    TAINTS = auto()
    CONDITIONS = auto()
    ANNOTATIONS = auto()
    FEATURES = auto()
    SCALE_DOWN = auto()
    TOLERATIONS = auto()
    GATES_ELIMINATED = auto()
    GENERATED_CLAIM = auto()
    UPDATE = auto()
    """Any change of an object whose changes are not distinguished further."""


ANY_CHANGE: Final = ~Change(0)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """One event, with the object before and after."""

    subject: Subject
    change: Change
    old: Any = None
    """A `PodInfo` for Pods, otherwise the object. None if the object is new."""
    new: Any = None
    """None if the object was deleted."""


class Hint(Enum):
    """Whether an event may make a Pod schedulable."""

    QUEUE = "queue"
    SKIP = "skip"


HintFunction: TypeAlias = Callable[[PodInfo, Any, Any], Hint]
"""Takes the pending Pod and the object before and after. An exception counts as `QUEUE`."""


@dataclass(frozen=True, slots=True)
class EventHint:
    """Events that concern a plugin. Without a function, each of them counts as `QUEUE`."""

    subject: Subject
    change: Change
    hint: HintFunction | None = None

    def concerns(self, event: ClusterEvent) -> bool:
        return Subject.ANYTHING in (self.subject, event.subject) or (
            self.subject is event.subject and bool(self.change & event.change)
        )


_LABELS: Final = {
    Change.ADD: "Add",
    Change.DELETE: "Delete",
    Change.ALLOCATABLE: "UpdateNodeAllocatable",
    Change.TAINTS: "UpdateNodeTaint",
    Change.CONDITIONS: "UpdateNodeCondition",
    Change.ANNOTATIONS: "UpdateNodeAnnotation",
    Change.FEATURES: "UpdateNodeDeclaredFeature",
    Change.SCALE_DOWN: "UpdatePodScaleDown",
    Change.TOLERATIONS: "UpdatePodToleration",
    Change.GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    Change.GENERATED_CLAIM: "UpdatePodGeneratedResourceClaim",
}


def label(event: ClusterEvent) -> str:
    """Return the name in upstream's metrics, by the first change: `AssignedPodDelete`, `NodeUpdateNodeTaint`."""
    return _label(event.subject, event.change)


@cache  # there are few kinds, and flags are slow
def _label(about: Subject, change: Change) -> str:
    subject = "UnschedulablePod" if about is Subject.POD else about.value
    if change & Change.LABELS:
        return f"{subject}{'UpdateNodeLabel' if about is Subject.NODE else 'UpdatePodLabel'}"
    return subject + next((name for known, name in _LABELS.items() if change & known), "Update")
