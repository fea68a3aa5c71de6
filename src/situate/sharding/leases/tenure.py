"""How long an executor may work: the arithmetic of its lease. The clock is an argument.

A tenure is valid until `renew_deadline_s` after the older of two moments. One is the time before the last successful
renewal was sent, and the other is the time of the last known state of the objects. An observer of the lease waits
longer than that. A tenure that is over stays over until a new one begins. A new one may begin only when no handler
runs.

Two threads use this object. Each field is written by one of them; only `over` is set by one and cleared by the other.
"""

from __future__ import annotations

import math

from situate.sharding.leases.membership import LeaseTimes


class Tenure:
    """The right of one executor to work."""

    def __init__(self, times: LeaseTimes) -> None:
        self.times = times
        self.number = 0
        """Number of the current tenure, from 1; 0: there has been none."""
        self.over = True
        """No tenure has begun, or the last one was lost."""
        self._renewed_at = -math.inf
        self._known_at = -math.inf
        self._lost_at = -math.inf

    def record_renewal(self, sent_at: float) -> None:
        """Record a successful renewal that was sent at `sent_at`."""
        self._renewed_at = max(self._renewed_at, sent_at)

    def record_release(self) -> None:
        """Record that this executor no longer holds the lease."""
        self._renewed_at = -math.inf

    def record_known_objects(self, as_of: float) -> None:
        """Record that the objects are known as of this time."""
        self._known_at = max(self._known_at, as_of)

    def may_begin(self, now: float) -> bool:
        """Return whether lease and objects are fresh, and both newer than the loss of the last tenure."""
        return now < self.deadline and min(self._renewed_at, self._known_at) > self._lost_at

    def begin(self) -> None:
        """Begin a new tenure. The caller makes sure that no handler of the last one runs."""
        self.number += 1
        self.over = False

    def lose(self, at: float) -> None:
        """End the tenure as of `at`; a second call changes nothing."""
        if not self.over:
            self.over = True
            self._lost_at = at

    @property
    def deadline(self) -> float:
        """When handlers are cancelled, unless the lease is renewed and the objects are known again."""
        return min(self._renewed_at, self._known_at) + self.times.renew_deadline_s

    @property
    def known_at(self) -> float:
        """The time as of which the objects are known."""
        return self._known_at

    def ends_process_at(self) -> float:
        """Return when the process must end itself if a handler of a lost tenure still runs."""
        return self._lost_at + self.times.cancel_grace_s if self.over else math.inf

    def is_valid(self, now: float) -> bool:
        """Return whether work may continue now. Call it directly before each write."""
        return not self.over and now < self.deadline
