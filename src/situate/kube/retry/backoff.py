"""The delay before a retry: a pure function of the number of failures and of a random source."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential growth up to a cap, with jitter so that many clients do not retry at once."""

    initial_s: float
    cap_s: float
    factor: float = 2.0
    jitter: float = 0.5
    """The delay is lengthened by up to this share of itself; 0 for none. The cap applies before jitter."""

    def delay_s(self, failures: int, rng: random.Random) -> float:
        """Return the delay after this many failures in a row, counted from 1."""
        # the exponent is bounded: a float overflows at 2**1024, and the cap is reached long before
        plain = min(self.cap_s, self.initial_s * self.factor ** min(failures - 1, 200))
        return plain * (1.0 + self.jitter * rng.random())
