"""A pod in the queue, with the story of its attempts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from situate.framework.pod.pods import PodInfo


class Place(Enum):
    """Where a pod of the queue is."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    IN_FLIGHT = "in flight"
    """Popped; its cycle has not ended."""
    DONE = "done"
    """It has found its node, and is being bound."""
    GONE = "gone"


@dataclass(slots=True, eq=False)
class WaitingPod:
    """Mutable, of the queue; others read it. Times are seconds of the clock that the queue is told."""

    info: PodInfo
    queued_at: float
    """When it joined the queue, or was put back last."""
    first_queued_at: float
    place: Place = Place.GONE
    key: Any = None
    """Its place in the order of the active queue."""
    attempts: int = 0
    """Cycles that it has begun."""
    rejections: int = 0
    """Cycles that ended with a rejection."""
    errors: int = 0
    """Cycles that ended with an error since the last that did not."""
    rejectors: frozenset[str] = frozenset()
    """Plugins that rejected it in its last cycle."""
    pending: frozenset[str] = frozenset()
    """Plugins that placed it in principle and wait for something outside."""
    gate: str = ""
    """The plugin that keeps it from becoming active; empty if none does."""
    gate_reasons: tuple[str, ...] = ()
    flushed: bool = False
    """Whether nothing but time has called it again."""
    backoff_until: float | None = None
    """None until it is asked for."""
    seen_events: int = field(default=0, repr=False)
    """While in flight: how many events the queue had met before."""

    @property
    def gated(self) -> bool:
        return bool(self.gate)

    @property
    def failed_by_error(self) -> bool:
        return self.errors > 0
