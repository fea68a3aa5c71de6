"""Leases, which name the one holder among several candidates (coordination/v1 types.go)."""

from __future__ import annotations

from datetime import datetime

from situate.objects.kinds.meta import ObjectMeta
from situate.objects.model import Model


class LeaseSpec(Model, frozen=True):
    """The spec of a Lease. Its times come from the holder's clock: compare them only with each other."""

    holder_identity: str = ""
    """Empty if the Lease has no holder."""
    lease_duration_seconds: int = 0
    acquire_time: datetime | None = None
    """None if the Lease was never held."""
    renew_time: datetime | None = None
    """None if the Lease was never held."""
    lease_transitions: int = 0


class Lease(Model, frozen=True):
    """A Lease. Write its times with `situate.objects.values.timestamps.micro_time`: servers require six decimals."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
