"""A pending Pod in the queue, with the history of its attempts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from situate.framework.pod.pods import PodInfo


class QueueState(Enum):
    """The position of a Pod in the queue."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    IN_FLIGHT = "in flight"
    """Popped, with a cycle that has not ended."""
    DONE = "done"
    """Has a node, and is being bound."""
    GONE = "gone"


@dataclass(slots=True, eq=False)
class WaitingPod:
    """A pending Pod, changed only by the queue. Times are seconds of the host's clock."""

    info: PodInfo
    queued_at: float
    """The time of its arrival in the queue, or of its last return."""
    first_queued_at: float
    place: QueueState = QueueState.GONE
    key: Any = None
    """The sort key in the active queue."""
    attempts: int = 0
    """The number of cycles that have begun."""
    rejections: int = 0
    """The number of cycles that ended with a rejection."""
    errors: int = 0
    """The number of cycles that ended with an error since the last cycle without one."""
    rejectors: frozenset[str] = frozenset()
    """Plugins that rejected the Pod in its last cycle."""
    pending: frozenset[str] = frozenset()
    """Plugins that placed the Pod in principle and wait for an external step."""
    gate: str = ""
    """The plugin that gates the Pod; empty if none does."""
    gate_reasons: tuple[str, ...] = ()
    flushed: bool = False
    """Whether the Pod was requeued only because of elapsed time."""
    backoff_until: float | None = None
    """None until it is computed."""
    seen_events: int = field(default=0, repr=False)
    """While in flight: the number of events that the queue had received before."""

    @property
    def gated(self) -> bool:
        return bool(self.gate)

    @property
    def failed_by_error(self) -> bool:
        return self.errors > 0
