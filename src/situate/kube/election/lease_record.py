"""The state of a Lease and its next content: the rules of leader election without clock or network.

The semantics are client-go's (`tools/leaderelection`), with one difference. A Lease that has this process's identity
but that this process did not write belongs to another process, because two processes may have the same identity.
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
    """The namespace and name of a Lease."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ElectionTimes:
    """The durations of an election. By default, as in client-go, a leader stops 5 s before another may take over."""

    lease_s: float = 15.0
    """How long candidates wait after the last renewal they saw before they take the Lease."""
    renew_deadline_s: float = 10.0
    """How long a leader stays leader after it began its last successful renewal."""
    retry_s: float = 2.0
    """Time between attempts; candidates add a random share."""
    waits: bool = True
    """False: a Lease is taken at once, even if it has a holder. Only where no other process can be alive."""

    def __post_init__(self) -> None:
        if not 0 < self.retry_s < self.renew_deadline_s < self.lease_s:
            raise ValueError(f"found {self}, allowed: 0 < retry_s < renew_deadline_s < lease_s")


class LeaseRecord(msgspec.Struct, frozen=True):
    """The fields of a Lease that elections use."""

    resource_version: str
    holder: str
    """Empty after a release."""
    lease_s: float
    """As the holder wrote it; 0 if the field is empty."""
    acquired: datetime | None
    renewed: datetime | None
    """By the holder's clock: used only to distinguish one renewal from another."""
    transitions: int

    def same_claim(self, other: LeaseRecord) -> bool:
        """Whether no process has acquired or renewed the Lease in between: a changed label is no sign of life."""
        return self._claim() == other._claim()

    def _claim(self) -> tuple[object, ...]:
        return self.holder, self.lease_s, self.acquired, self.renewed, self.transitions

    @staticmethod
    def from_lease(lease: Lease) -> LeaseRecord:
        spec = lease.spec
        return LeaseRecord(
            lease.metadata.resource_version,
            spec.holder_identity,
            float(spec.lease_duration_seconds),
            spec.acquire_time,
            spec.renew_time,
            spec.lease_transitions,
        )


def free_at(record: LeaseRecord, seen_at: float, times: ElectionTimes) -> float:
    """Return when, on the observer's monotonic clock, a Lease last seen to change at `seen_at` may be taken."""
    if not record.holder or not times.waits:
        return seen_at
    return seen_at + (record.lease_s or times.lease_s)


def acquired_content(record: LeaseRecord | None, identity: str, now: datetime, times: ElectionTimes) -> dict[str, Any]:
    """Build the content with which this process becomes the holder; record None means that there is no Lease yet."""
    transitions = 0 if record is None else record.transitions + 1
    return _content(record, identity, times.lease_s, now, now, transitions)


def renewed_content(record: LeaseRecord, now: datetime, times: ElectionTimes) -> dict[str, Any]:
    """Build the content with which the holder renews the Lease."""
    return _content(record, record.holder, times.lease_s, record.acquired or now, now, record.transitions)


def released_content(record: LeaseRecord, now: datetime) -> dict[str, Any]:
    """Build the content of a release, after which the next candidate need not wait."""
    return _content(record, "", 1.0, now, now, record.transitions)


def _content(
    record: LeaseRecord | None, holder: str, lease_s: float, acquired: datetime, renewed: datetime, transitions: int
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
