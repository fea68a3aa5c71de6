"""The words of vpod scheduling: what Knative's Go API calls placement, vpod, scale, scheduler and evictor.

Only values and protocols live here. What pods are allowed to hold is in `pod_classes`, the settings are in `options`,
the bookkeeping is in `state`. Source of the names and rules: knative/eventing, pkg/scheduler.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec

POD_ANNOTATION_KEY = "eventing.knative.dev/unschedulable"
"""A pod whose annotation reads as true receives no vreplicas and keeps none."""
DRAINED_BY_ANNOTATION_KEY = "vpod.situate.dev/drained-by"
"""Stands beside POD_ANNOTATION_KEY where we set it; without it the annotation is an operator's and never touched."""
WEIGHT_ANNOTATION_KEY = "vpod.situate.dev/weight"
PRIORITY_ANNOTATION_KEY = "vpod.situate.dev/priority"
UNKNOWN_ZONE = "unknown"
ZONE_LABEL = "topology.kubernetes.io/zone"

INT32_MAX = 2**31 - 1
_LONGEST_ORDINAL = 18  # digits; longer ones are no ordinal, and int() must never see megabytes of digits


class Key(NamedTuple):
    """Namespace and name of a vpod; orders by namespace, then name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> Key:
        """The inverse of `str`; text without a slash is a name without namespace."""
        namespace, slash, name = text.partition("/")
        return cls(namespace, name) if slash else cls("", namespace)


class Placement(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """So many vreplicas on one pod, as in `status.placements`. In JSON, zero vreplicas are left out.

    Raises ValueError when vreplicas is not a 32-bit integer.
    """

    pod_name: str
    vreplicas: int = 0

    def __post_init__(self) -> None:
        if not -INT32_MAX - 1 <= self.vreplicas <= INT32_MAX:
            raise ValueError(
                f"placement on pod {self.pod_name!r}: vreplicas is {self.vreplicas}, allowed are 32-bit integers"
            )

    def to_json(self) -> dict[str, str | int]:
        if self.vreplicas == 0:
            return {"podName": self.pod_name}
        return {"podName": self.pod_name, "vreplicas": self.vreplicas}


Placements = tuple[Placement, ...]


class VPod(Protocol):
    """A resource with parallel workers. Read-only: schedulers never change one.

    Optional beyond these: `weight` (units of capacity a vreplica costs, 1) and `priority` (0, higher first when
    there is a shortage); see `weight_of` and `priority_of`.
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
    """A VPod that is nothing but its values."""

    key: Key
    vreplicas: int
    placements: Placements = ()
    resource_version: str = ""
    deletion_timestamp: str | None = None
    weight: int = 1
    priority: int = 0
    faults: tuple[str, ...] = ()
    """What could not be read of the resource, a sentence each."""


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
    """The running pods have no room for `left` vreplicas; what did fit is in `placements`. Try again later."""

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
"""Called with the pod that is left (None if it is gone), the vpod, and the placement that has to go."""


class ScaleClient(Protocol):
    """Reads and writes the scale subresource of StatefulSets in one namespace; failures are exceptions.

    `options` are query parameters, handed through as they are.
    """

    def get_scale(self, name: str, options: Mapping[str, str] | None = None) -> Scale | Awaitable[Scale]: ...
    def update_scale(
        self, name: str, scale: Scale, options: Mapping[str, str] | None = None
    ) -> Scale | Awaitable[Scale]: ...


def total_vreplicas(placements: Iterable[Placement] | None) -> int:
    """The sum over all entries; entries for the same pod are summed."""
    return sum(p.vreplicas for p in placements or ())


def placement_for_pod(placements: Iterable[Placement] | None, pod: str) -> Placement | None:
    """The first entry for the pod."""
    return next((p for p in placements or () if p.pod_name == pod), None)


def pod_count(placements: Iterable[Placement] | None) -> int:
    """Distinct pods with at least one vreplica."""
    return len({p.pod_name for p in placements or () if p.vreplicas > 0})


def pod_name(statefulset: str, ordinal: int) -> str:
    return f"{statefulset}-{ordinal}"


def ordinal_of(pod: str, statefulset: str) -> int | None:
    """The ordinal in `<statefulset>-<digits>`, or None: another set's pod, a sign, a leading zero, no digits."""
    head, dash, digits = pod.rpartition("-")
    if not dash or head != statefulset or not digits.isascii() or not digits.isdecimal():
        return None
    if len(digits) > _LONGEST_ORDINAL or (digits[0] == "0" and len(digits) > 1):
        return None
    return int(digits)


def weight_of(vpod: VPod) -> int:
    """Units of capacity that one vreplica costs; at least 1."""
    return max(1, getattr(vpod, "weight", 1))


def priority_of(vpod: VPod) -> int:
    return int(getattr(vpod, "priority", 0))
