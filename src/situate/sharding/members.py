"""Executors as the supervisor sees them at one moment: values for strategies and for `decide`.

How they come about, from leases and pods, is in `situate.sharding.leases`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from situate.objects.meta import NO_LABELS

NO_METRICS: Final[Mapping[str, float]] = MappingProxyType({})


class ExecutorStatus(StrEnum):
    """What may be done with an executor that is not removed. Only HEALTHY ones are chosen."""

    HEALTHY = "Healthy"
    FULL = "Full"
    UNHEALTHY = "Unhealthy"
    DRAINING = "Draining"


@dataclass(frozen=True, slots=True)
class Executor:
    """One incarnation of an executor whose lease lives."""

    id: str
    """What stands in the objects' assignment: the pod's name, or `namespace/name` when they come from several."""
    uid: str
    """The incarnation: the pod's UID. An equal id with another uid is another executor and inherits nothing."""
    status: ExecutorStatus = ExecutorStatus.HEALTHY
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    """The pod's."""
    revision: str = ""
    """Of the pod template, newest as the workload's controller says; empty if unknown."""
    capacity: float | None = None
    """Open objects, or their weight, that it takes; None: no limit is declared."""
    open: int = 0
    """Objects assigned to it and not completed, as listed."""
    metrics: Mapping[str, float] = field(default_factory=lambda: NO_METRICS)
    """Its latest sample, such as cpu and memory; hostile until a strategy has looked at each value."""
    sampled_at: float | None = None
    """When that sample was seen, on the observer's monotonic clock; None if there is none."""
