"""The lease states of controller-sharding, for whoever comes from there (its `pkg/sharding/leases`, commit f1d25b3).

Their names and their bounds. Two things are ours: the age is what the observer saw on its own clock, where theirs
trusts the time that the shard wrote; and only a ready shard gets new work, where theirs gives it to all that are held.
"""

from __future__ import annotations

from enum import StrEnum

from situate.sharding.leases.membership import FORGOTTEN_AFTER_S


class RingState(StrEnum):
    """What a shard's Lease says of it."""

    READY = "ready"
    EXPIRED = "expired"
    UNCERTAIN = "uncertain"
    DEAD = "dead"
    ORPHANED = "orphaned"

    @property
    def takes_new_work(self) -> bool:
        """Of a state by the observer's own clock."""
        return self is RingState.READY


def ring_state(
    name: str, holder: str | None, age_s: float | None, duration_s: float | None, acquired: bool
) -> RingState:
    """The state of the shard's Lease.

    `age_s`: seconds since the Lease was seen to change; None: it has no renew time. `duration_s` None: it has none.
    `acquired`: it has an acquire time.
    """
    if holder != name or not holder:
        # a Lease that lacks a time has expired just now, whenever it is looked at (upstream: times.go)
        if age_s is None or duration_s is None or not acquired:
            return RingState.DEAD
        return RingState.ORPHANED if age_s >= duration_s + FORGOTTEN_AFTER_S else RingState.DEAD
    if age_s is None or duration_s is None or not acquired:
        return RingState.EXPIRED
    if age_s >= 2 * duration_s:
        return RingState.UNCERTAIN
    return RingState.EXPIRED if age_s >= duration_s else RingState.READY
