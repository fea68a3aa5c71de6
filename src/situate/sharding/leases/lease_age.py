"""Judge a Lease by the times written in it, for commands that read it once.

Supervisors and executors judge by their own monotonic clock instead (`situate.sharding.leases.membership`). A wrong
clock of the Lease's holder misleads a command, never them.
"""

from __future__ import annotations

from datetime import datetime

from situate.objects.kinds.leases import Lease
from situate.sharding.leases.membership import LONGEST_LEASE_S


def age_s(lease: Lease, wall: datetime) -> float | None:
    """Return the seconds since the holder's last renewal, by both clocks; None if the Lease has no renew time."""
    renewed = lease.spec.renew_time
    return None if renewed is None else (wall - renewed).total_seconds()


def is_expired(lease: Lease, wall: datetime, at_least_s: float = 0.0) -> bool:
    """Return whether a held Lease has expired. `at_least_s`: a shorter duration in the Lease counts as this one."""
    age = age_s(lease, wall)
    lasts_s = max(at_least_s, min(lease.spec.lease_duration_seconds, LONGEST_LEASE_S))
    return bool(lease.spec.holder_identity) and age is not None and age >= lasts_s


def supervisor_problem(name: str, lease: Lease | None, wall: datetime) -> str:
    """Return why no supervisor holds the Lease; empty if one does. `name`: name of the Lease, for the text."""
    if lease is None:
        return f"Lease {name} does not exist"
    if not lease.spec.holder_identity:
        return f"Lease {name} has no holder"
    age = age_s(lease, wall)
    if age is None:
        return f"Lease {name} was never renewed"
    if is_expired(lease, wall):
        return (
            f"Lease {name} expired: {lease.spec.holder_identity} renewed it {age:.0f} s ago, and it lasts "
            f"{lease.spec.lease_duration_seconds:g} s"
        )
    return ""
