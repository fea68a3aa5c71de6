"""What a Lease says, and what may be written into it: the rules of leader election without clock or network.

client-go's semantics (`tools/leaderelection`), with one difference: a lease that bears our name but that we did not
write is somebody else's, for two processes may have been given one name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from situate.objects.kinds.leases import Lease
from situate.objects.values.timestamps import micro_time


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Which Lease decides."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ElectionTimes:
    """client-go's defaults: a leader gives up 5 s before anybody may take over."""

    lease_s: float = 15.0
    """How long others wait, after they have seen the last renewal, before they take the lease."""
    renew_deadline_s: float = 10.0
    """How long a leader goes on after it began its last successful renewal."""
    retry_s: float = 2.0
    """Between attempts; candidates lengthen it by a random share."""
    waits: bool = True
    """False: a lease is taken at once, whoever holds it. Only where no other process can be alive."""

    def __post_init__(self) -> None:
        if not 0 < self.retry_s < self.renew_deadline_s < self.lease_s:
            raise ValueError(f"{self}: it must hold that 0 < retry_s < renew_deadline_s < lease_s")


class Record(msgspec.Struct, frozen=True):
    """The part of a Lease that elections are about."""

    resource_version: str
    holder: str
    """Empty when it was released."""
    lease_s: float
    """As the holder wrote it; 0 when it wrote none."""
    acquired: datetime | None
    renewed: datetime | None
    """By the holder's clock: only good for telling one renewal from another."""
    transitions: int

    def same_claim(self, other: Record) -> bool:
        """Whether nobody has claimed or renewed in between: a changed label is no sign of life."""
        return self._claim() == other._claim()

    def _claim(self) -> tuple[object, ...]:
        return self.holder, self.lease_s, self.acquired, self.renewed, self.transitions

    @staticmethod
    def from_lease(lease: Lease) -> Record:
        spec = lease.spec
        return Record(
            lease.metadata.resource_version,
            spec.holder_identity,
            float(spec.lease_duration_seconds),
            spec.acquire_time,
            spec.renew_time,
            spec.lease_transitions,
        )


def free_at(record: Record, seen_at: float, times: ElectionTimes) -> float:
    """When, on the observer's monotonic clock, a lease may be taken that was last seen to change at `seen_at`."""
    if not record.holder or not times.waits:
        return seen_at
    return seen_at + (record.lease_s or times.lease_s)


def taken(record: Record | None, identity: str, now: datetime, times: ElectionTimes) -> dict[str, Any]:
    """The Lease's content with which we become the holder; None: there is no Lease yet."""
    transitions = 0 if record is None else record.transitions + 1
    return _content(record, identity, times.lease_s, now, now, transitions)


def renewed(record: Record, now: datetime, times: ElectionTimes) -> dict[str, Any]:
    """The Lease's content with which we stay the holder."""
    return _content(record, record.holder, times.lease_s, record.acquired or now, now, record.transitions)


def released(record: Record, now: datetime) -> dict[str, Any]:
    """The Lease's content with which the next candidate need not wait."""
    return _content(record, "", 1.0, now, now, record.transitions)


def _content(
    record: Record | None, holder: str, lease_s: float, acquired: datetime, renewed: datetime, transitions: int
) -> dict[str, Any]:
    # The resourceVersion makes the write conditional: of two candidates one gets a conflict.
    metadata: Mapping[str, str] = {} if record is None else {"resourceVersion": record.resource_version}
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": max(1, round(lease_s)),
        "acquireTime": micro_time(acquired),
        "renewTime": micro_time(renewed),
        "leaseTransitions": transitions,
    }
    return {"metadata": dict(metadata), "spec": spec}
