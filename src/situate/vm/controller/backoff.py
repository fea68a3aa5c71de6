"""Back-off after failed writes about one object, as neondatabase/autoscaling computes it (C24)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST_NS: Final = 100_000_000
FACTOR: Final = 2.03
LONGEST_NS: Final = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Backoff:
    """Back-off of one object. Times are whole nanoseconds."""

    failures: int = 0
    """Failures in a row."""
    stored_ns: int = 0
    """The back-off after the last failure. The next one grows from it."""

    def after_failure(self, retry_ns: int = 0) -> tuple[Backoff, int]:
        """Return the state after another failure, and the time to wait.

        `retry_ns` is the retry time that the handler asked for; 0 if none.
        """
        grown = FIRST_NS if not self.failures else min(int(self.stored_ns * FACTOR), LONGEST_NS)
        stored = min(grown, retry_ns) if retry_ns else grown
        return Backoff(self.failures + 1, stored), max(stored, retry_ns)


NO_FAILURE: Final = Backoff()
"""Also the state after a success."""
