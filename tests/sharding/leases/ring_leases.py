"""The lease states of controller-sharding, for users of it (its `pkg/sharding/leases`, commit f1d25b3).

Names and limits are the same. There are two differences. The age is the time since the observer saw a change, by its
own clock; upstream trusts the time that the shard wrote. Only a ready shard gets new work; upstream gives it to every
held shard.
"""

from __future__ import annotations

from enum import StrEnum

from situate.sharding.leases.membership import FORGOTTEN_AFTER_S


class RingState(StrEnum):
    """The state of a shard by its Lease."""

    READY = "ready"
    EXPIRED = "expired"
    UNCERTAIN = "uncertain"
    DEAD = "dead"
    ORPHANED = "orphaned"

    @property
    def takes_new_work(self) -> bool:
        """Return whether a shard in this state gets new work."""
        return self is RingState.READY


def ring_state(
    name: str, holder: str | None, age_s: float | None, duration_s: float | None, acquired: bool
) -> RingState:
    """Return the state of the shard's Lease.

    `age_s`: seconds since the Lease was seen to change; None: it has no renew time. `duration_s` None: it has no
    duration. `acquired`: it has an acquire time.
    """
    if holder != name or not holder:
        # a Lease that lacks a time counts as expired at the present moment (upstream: times.go)
        if age_s is None or duration_s is None or not acquired:
            return RingState.DEAD
        return RingState.ORPHANED if age_s >= duration_s + FORGOTTEN_AFTER_S else RingState.DEAD
    if age_s is None or duration_s is None or not acquired:
        return RingState.EXPIRED
    if age_s >= 2 * duration_s:
        return RingState.UNCERTAIN
    return RingState.EXPIRED if age_s >= duration_s else RingState.READY
