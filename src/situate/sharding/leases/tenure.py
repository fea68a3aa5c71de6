"""For how long an executor may work: the arithmetic of its lease, by a clock that is an argument.

A tenure is valid until `renew_deadline_s` after whichever is older: the moment before the last successful renewal was
sent, or the moment as of which the objects are known. Whoever judges the lease from outside waits for longer. Once
over, it stays over until it is begun anew, which is allowed when nothing of it runs any more.

Read and written by two threads: each field by one of them, but for `over`, which one sets and the other clears.
"""

from __future__ import annotations

import math

from situate.sharding.leases.membership import LeaseTimes


class Tenure:
    """One executor's right to work."""

    def __init__(self, times: LeaseTimes) -> None:
        self.times = times
        self.number = 0
        """Of the present tenure, from 1; 0: there has been none."""
        self.over = True
        """Not begun, or lost and not begun anew."""
        self._renewed_at = -math.inf
        self._known_at = -math.inf
        self._lost_at = -math.inf

    def renewed(self, sent_at: float) -> None:
        """A renewal has landed that was sent then."""
        self._renewed_at = max(self._renewed_at, sent_at)

    def given_back(self) -> None:
        """The lease is somebody else's, or nobody's."""
        self._renewed_at = -math.inf

    def knows(self, as_of: float) -> None:
        """The objects are known as they were then."""
        self._known_at = max(self._known_at, as_of)

    def may_begin(self, now: float) -> bool:
        """Whether lease and knowledge are good, and both newer than the loss of the tenure before."""
        return now < self.deadline and min(self._renewed_at, self._known_at) > self._lost_at

    def begin(self) -> None:
        """A new tenure. The caller has made sure that nothing of the one before runs."""
        self.number += 1
        self.over = False

    def lose(self, at: float) -> None:
        """It is over since then; a second call changes nothing."""
        if not self.over:
            self.over = True
            self._lost_at = at

    @property
    def deadline(self) -> float:
        """When handlers are cancelled unless something is renewed."""
        return min(self._renewed_at, self._known_at) + self.times.renew_deadline_s

    @property
    def known_at(self) -> float:
        """As of when the objects are known."""
        return self._known_at

    def ends_process_at(self) -> float:
        """When a process must end itself in which a handler of a lost tenure still runs."""
        return self._lost_at + self.times.cancel_grace_s if self.over else math.inf

    def valid(self, now: float) -> bool:
        """Whether work may go on at this moment. Ask right before each write."""
        return not self.over and now < self.deadline

    def remaining_s(self, now: float) -> float:
        """For how long it stays valid without a renewal; 0 when it is not."""
        return max(0.0, self.deadline - now) if self.valid(now) else 0.0
