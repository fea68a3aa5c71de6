"""Executors as the supervisor sees them at one moment: values for strategies and for `decide`.

How they come about, from leases and pods, is in `situate.sharding.leases.membership`.
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
    """What may be done with an executor that is not removed. Only HEALTHY ones are chosen."""

    HEALTHY = "Healthy"
    FULL = "Full"
    UNHEALTHY = "Unhealthy"
    DRAINING = "Draining"


class Executor(msgspec.Struct, frozen=True):
    """One incarnation of an executor whose lease lives."""

    id: str
    """What stands in the objects' assignment: the pod's name, or `namespace/name` when they come from several."""
    uid: str
    """The incarnation: the pod's UID. An equal id with another uid is another executor and inherits nothing."""
    status: ExecutorStatus = ExecutorStatus.HEALTHY
    namespace: str = ""
    labels: Mapping[str, str] = NO_LABELS
    """The pod's."""
    revision: str = ""
    """Of the pod template, newest as the workload's controller says; empty if unknown."""
    capacity: float | None = None
    """Open objects, or their weight, that it takes; None: no limit is declared."""
    open: int = 0
    """Objects assigned to it and not completed, as listed."""
    metrics: Mapping[str, float] = NO_METRICS
    """Its latest sample, such as cpu and memory; hostile until a strategy has looked at each value."""
    sampled_at: float | None = None
    """When that sample was seen, on the observer's monotonic clock; None if there is none."""
    lease_s: float = 15.0
    """d: how long it may be at work after it was last heard of, or after what it holds was revoked."""
    expires_at: float = math.inf
    """When its lease runs out unless it is seen to be renewed, on the observer's monotonic clock."""
    unhealthy_since: float | None = None
    """On the observer's monotonic clock; None while its pod is ready."""


class Ending(StrEnum):
    """How it is known that an incarnation works no more, or may not."""

    RELEASED = "released"
    EXPIRED = "expired"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Removed:
    """One incarnation that holds nothing any longer; forgotten after some time."""

    id: str
    uid: str
    ending: Ending


@dataclass(frozen=True, slots=True)
class Suspect:
    """An executor whose lease seems to have run out: it gets no work, and keeps what it has until that is certain."""

    uid: str
    namespace: str
    lease: str
    """The Lease's name."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """The Lease of an executor that was removed so long ago that nothing is left of it but this."""

    executor_uid: str
    namespace: str
    lease: str
    """The Lease's name."""
    uid: str
    """The Lease's own."""
    version: str
    """As it was last seen: whoever lives has changed it since."""


@dataclass(frozen=True, slots=True)
class Members:
    """All executors at one moment. Times are the observer's monotonic clock's."""

    lease_s: float
    """d: how long a silent executor is believed to be at work."""
    living: Mapping[str, Executor] = field(default_factory=dict)
    """By uid."""
    removed: Mapping[str, Removed] = field(default_factory=dict)
    """By uid."""
    synced_at: float | None = None
    """When leases and pods had been listed; None before that."""
    changed_at: float | None = None
    """When the set of (id, uid, status) last changed; None if there has never been anybody."""
    newest_revision: str = ""
    """Of the youngest pod; empty if unknown."""
    suspects: tuple[Suspect, ...] = ()
    """Among the living."""
    leftovers: tuple[Leftover, ...] = ()

    current: Mapping[str, Executor] = field(init=False, compare=False, repr=False)
    """By id, the incarnation that may be given work under it: of two the one whose pod is there."""
    eligible: Mapping[str, Executor] = field(init=False, compare=False, repr=False)
    """By id, those of them that are healthy."""

    def __post_init__(self) -> None:
        current: dict[str, Executor] = {}
        for executor in self.living.values():
            other = current.get(executor.id)
            if other is None or _preferred(executor) > _preferred(other):
                current[executor.id] = executor
        healthy = {id_: each for id_, each in current.items() if each.status is ExecutorStatus.HEALTHY}
        object.__setattr__(self, "current", current)  # derived: what is frozen is what it is derived from
        object.__setattr__(self, "eligible", healthy)

    @property
    def one_revision(self) -> bool:
        """Whether no rollout is under way, as far as the pods' labels say."""
        return len({executor.revision for executor in self.living.values()}) <= 1

    @property
    def next_expiry(self) -> float | None:
        """When time alone may make somebody a suspect; None while nobody is there who is none."""
        doubted = {suspect.uid for suspect in self.suspects}
        return min((each.expires_at for uid, each in self.living.items() if uid not in doubted), default=None)


def _preferred(executor: Executor) -> tuple[int, float, str]:
    """A vanished pod's executor is unhealthy and renews no more; the uid makes the order total."""
    ranks = (ExecutorStatus.UNHEALTHY, ExecutorStatus.DRAINING, ExecutorStatus.FULL, ExecutorStatus.HEALTHY)
    return ranks.index(executor.status), executor.expires_at, executor.uid
