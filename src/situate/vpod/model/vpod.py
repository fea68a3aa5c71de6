"""The public names of vpod scheduling: Knative's placement, vpod, scale, scheduler and evictor.

This module has only values and protocols. `pod_classes` decides whether Pods accept vreplicas, `options` holds the
settings, and `state` holds the counts. Source of the names and rules: knative/eventing, pkg/scheduler.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec

POD_ANNOTATION_KEY = "eventing.knative.dev/unschedulable"
"""A Pod whose annotation reads as true receives no vreplicas, and its vreplicas are placed elsewhere."""
DRAINED_BY_ANNOTATION_KEY = "vpod.situate.dev/drained-by"
"""Marks an annotation POD_ANNOTATION_KEY that vpod set. Without this mark vpod never changes the annotation."""
WEIGHT_ANNOTATION_KEY = "vpod.situate.dev/weight"
PRIORITY_ANNOTATION_KEY = "vpod.situate.dev/priority"
UNKNOWN_ZONE = "unknown"
ZONE_LABEL = "topology.kubernetes.io/zone"

INT32_MAX = 2**31 - 1
_LONGEST_ORDINAL = 18  # digits; longer numbers are no ordinal, and int() must never parse megabytes of digits


class Key(NamedTuple):
    """Namespace and name of a vpod; sorts by namespace, then name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> Key:
        """Parse the result of `str`. Text without a slash is a name without namespace."""
        namespace, slash, name = text.partition("/")
        return cls(namespace, name) if slash else cls("", namespace)


class Placement(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """A number of vreplicas on one Pod, as in `status.placements`. The JSON form leaves out zero vreplicas.

    Raises ValueError if vreplicas is not a 32-bit integer.
    """

    pod_name: str
    vreplicas: int = 0

    def __post_init__(self) -> None:
        if not -INT32_MAX - 1 <= self.vreplicas <= INT32_MAX:
            raise ValueError(
                f"placement on pod {self.pod_name!r}: vreplicas is {self.vreplicas}, allowed: 32-bit integers"
            )

    def to_json(self) -> dict[str, str | int]:
        if self.vreplicas == 0:
            return {"podName": self.pod_name}
        return {"podName": self.pod_name, "vreplicas": self.vreplicas}


Placements = tuple[Placement, ...]


class VPod(Protocol):
    """A resource with parallel workers. Read-only: schedulers never change a vpod.

    Two more attributes are optional: `weight` (units of capacity for each vreplica, default 1) and `priority` (default
    0; higher is first under a shortage). See `weight_of` and `priority_of`.
    """

    @property
    def key(self) -> Key: ...
    @property
    def vreplicas(self) -> int: ...
    @property
    def placements(self) -> Placements: ...
    @property
    def resource_version(self) -> str: ...
    @property
    def deletion_timestamp(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class PlainVPod:
    """A VPod that holds only values."""

    key: Key
    vreplicas: int
    placements: Placements = ()
    resource_version: str = ""
    deletion_timestamp: str | None = None
    weight: int = 1
    priority: int = 0
    faults: tuple[str, ...] = ()
    """The fields of the resource that could not be read, one sentence each."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale subresource of a StatefulSet."""

    namespace: str
    name: str
    spec_replicas: int
    status_replicas: int = 0
    resource_version: str = ""
    """Empty in answers from a cache."""


class NotEnoughReplicas(Exception):
    """The running Pods lack capacity for `left` vreplicas; `placements` has the partial result. Retry later."""

    def __init__(self, statefulset: str, placements: Sequence[Placement], left: int, retry_after: float = 5.0) -> None:
        super().__init__(
            f"insufficient running pods replicas for StatefulSet {statefulset} "
            f"to schedule resource replicas (left: {left}): retry"
        )
        self.placements = list(placements)
        self.left = left
        self.retry_after = retry_after
        """Seconds."""


@runtime_checkable
class Scheduler(Protocol):
    """Places one vpod. The result is sorted by ordinal; a shortage raises NotEnoughReplicas."""

    def schedule(self, vpod: VPod) -> list[Placement] | Awaitable[list[Placement]]: ...


SchedulerFunc = Callable[[VPod], "list[Placement] | Awaitable[list[Placement]]"]
VPodLister = Callable[[], "Iterable[VPod] | Awaitable[Iterable[VPod]]"]
Evictor = Callable[[Any, VPod, Placement], "Awaitable[None] | None"]
"""Called with the Pod of the placement (None if the Pod is gone), the vpod, and the placement to remove."""


class ScaleClient(Protocol):
    """Reads and writes the scale subresource of StatefulSets in one namespace. A failure is an exception.

    `options` are query parameters, passed to the server unchanged.
    """

    def get_scale(self, name: str, options: Mapping[str, str] | None = None) -> Scale | Awaitable[Scale]: ...
    def update_scale(
        self, name: str, scale: Scale, options: Mapping[str, str] | None = None
    ) -> Scale | Awaitable[Scale]: ...


def total_vreplicas(placements: Iterable[Placement] | None) -> int:
    """Return the sum over all entries; entries for the same Pod add up."""
    return sum(p.vreplicas for p in placements or ())


def placement_for_pod(placements: Iterable[Placement] | None, pod: str) -> Placement | None:
    """Return the first entry for the Pod."""
    return next((p for p in placements or () if p.pod_name == pod), None)


def pod_count(placements: Iterable[Placement] | None) -> int:
    """Count the distinct Pods with at least one vreplica."""
    return len({p.pod_name for p in placements or () if p.vreplicas > 0})


def pod_name(statefulset: str, ordinal: int) -> str:
    return f"{statefulset}-{ordinal}"


def ordinal_of(pod: str, statefulset: str) -> int | None:
    """Return the ordinal of `<statefulset>-<digits>`, or None.

    None means the Pod of another StatefulSet, a sign, a leading zero, or no digits.
    """
    head, dash, digits = pod.rpartition("-")
    if not dash or head != statefulset or not digits.isascii() or not digits.isdecimal():
        return None
    if len(digits) > _LONGEST_ORDINAL or (digits[0] == "0" and len(digits) > 1):
        return None
    return int(digits)


def weight_of(vpod: VPod) -> int:
    """Return the units of capacity that one vreplica costs; at least 1."""
    return max(1, getattr(vpod, "weight", 1))


def priority_of(vpod: VPod) -> int:
    return int(getattr(vpod, "priority", 0))
