"""Leases, by which one of many holders is told from the others (coordination/v1 types.go)."""

from __future__ import annotations

from datetime import datetime

from situate.objects.kinds.meta import ObjectMeta
from situate.objects.model import Model


class LeaseSpec(Model, frozen=True):
    """Times come from the holder's clock: compare them with each other, never with one's own."""

    holder_identity: str = ""
    """Empty if nobody holds it."""
    lease_duration_seconds: int = 0
    acquire_time: datetime | None = None
    """None if it was never held."""
    renew_time: datetime | None = None
    """None if it was never held."""
    lease_transitions: int = 0


class Lease(Model, frozen=True):
    """Times are written by `situate.objects.values.timestamps.micro_time`: servers want six decimals."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
