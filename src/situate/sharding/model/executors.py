"""Define the executors as the supervisor sees them at one moment: values for strategies and for `decide`.

`situate.sharding.leases.membership` derives them from Leases and pods.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from situate.objects.kinds.meta import NO_LABELS

NO_METRICS: Final[Mapping[str, float]] = MappingProxyType({})


class ExecutorStatus(StrEnum):
    """The status of an executor that is not removed. Strategies choose only HEALTHY executors."""

    HEALTHY = "Healthy"
    FULL = "Full"
    UNHEALTHY = "Unhealthy"
    DRAINING = "Draining"


class LiveExecutor(msgspec.Struct, frozen=True):
    """One incarnation of an executor with a live Lease."""

    id: str
    """The id in the assignment of objects: the pod's name, or `namespace/name` if executors may be in any namespace."""
    uid: str
    """The incarnation: the pod's UID. An executor with the same id and another UID inherits nothing."""
    status: ExecutorStatus = ExecutorStatus.HEALTHY
    namespace: str = ""
    labels: Mapping[str, str] = NO_LABELS
    """Labels of the pod."""
    revision: str = ""
    """Revision of the pod template, from the pod's label of its workload controller; empty if unknown."""
    capacity: float | None = None
    """Maximum number, or weight, of open objects; None: no limit is declared."""
    open: int = 0
    """Number of open objects assigned to the executor, as listed."""
    metrics: Mapping[str, float] = NO_METRICS
    """The latest sample, such as cpu and memory. Untrusted: a strategy must check each value."""
    sampled_at: float | None = None
    """When the observer saw the sample, on its monotonic clock; None without a sample."""
    lease_s: float = 15.0
    """d: how long the executor may still work after its last sign of life, or after a revoke."""
    expires_at: float = math.inf
    """When the Lease expires unless the observer sees a renewal, on the observer's monotonic clock."""
    unhealthy_since: float | None = None
    """On the observer's monotonic clock; None while the pod is ready."""


class EndReason(StrEnum):
    """The evidence that an incarnation no longer works, or must not work."""

    RELEASED = "released"
    EXPIRED = "expired"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class RemovedExecutor:
    """An incarnation that no longer holds objects; its record is dropped after some time."""

    id: str
    uid: str
    ending: EndReason


@dataclass(frozen=True, slots=True)
class SuspectLease:
    """An executor whose Lease seems expired.

    It gets no new objects. It keeps its own until a read of the Lease confirms the expiry.
    """

    uid: str
    namespace: str
    lease: str
    """The Lease's name."""


@dataclass(frozen=True, slots=True)
class LeftoverLease:
    """The Lease of an executor whose pod is gone and whose record was dropped."""

    executor_uid: str
    namespace: str
    lease: str
    """The Lease's name."""
    uid: str
    """UID of the Lease itself."""
    version: str
    """The resourceVersion last seen. A live executor would have changed it since."""


@dataclass(frozen=True, slots=True)
class Members:
    """All executors at one moment. Times are on the observer's monotonic clock."""

    lease_s: float
    """d: how long a silent executor counts as alive."""
    living: Mapping[str, LiveExecutor] = field(default_factory=dict)
    """By uid."""
    removed: Mapping[str, RemovedExecutor] = field(default_factory=dict)
    """By uid."""
    synced_at: float | None = None
    """When the first list of Leases and pods was complete; None before that."""
    changed_at: float | None = None
    """When the set of (id, uid, status) last changed; None if no executor was ever seen."""
    newest_revision: str = ""
    """Revision of the youngest pod; empty if unknown."""
    suspects: tuple[SuspectLease, ...] = ()
    """The living executors whose Lease seems expired."""
    leftovers: tuple[LeftoverLease, ...] = ()

    current: Mapping[str, LiveExecutor] = field(init=False, compare=False, repr=False)
    """By id, the incarnation that may get objects: of two incarnations, the one with an existing pod."""
    eligible: Mapping[str, LiveExecutor] = field(init=False, compare=False, repr=False)
    """By id, the healthy ones among `current`."""

    def __post_init__(self) -> None:
        current: dict[str, LiveExecutor] = {}
        for executor in self.living.values():
            other = current.get(executor.id)
            if other is None or _preference_key(executor) > _preference_key(other):
                current[executor.id] = executor
        healthy = {id_: each for id_, each in current.items() if each.status is ExecutorStatus.HEALTHY}
        object.__setattr__(self, "current", current)  # derived from the frozen fields
        object.__setattr__(self, "eligible", healthy)

    @property
    def one_revision(self) -> bool:
        """Whether no rollout is in progress, judged by the labels of the pods."""
        return len({executor.revision for executor in self.living.values()}) <= 1

    @property
    def next_expiry(self) -> float | None:
        """When the next Lease may expire and make its executor a suspect; None if all living executors are suspects."""
        doubted = {suspect.uid for suspect in self.suspects}
        return min((each.expires_at for uid, each in self.living.items() if uid not in doubted), default=None)


def _preference_key(executor: LiveExecutor) -> tuple[int, float, str]:
    """Rank the incarnations of one id: the executor of a vanished pod is unhealthy and renews no more.

    The UID makes the order total.
    """
    ranks = (ExecutorStatus.UNHEALTHY, ExecutorStatus.DRAINING, ExecutorStatus.FULL, ExecutorStatus.HEALTHY)
    return ranks.index(executor.status), executor.expires_at, executor.uid
