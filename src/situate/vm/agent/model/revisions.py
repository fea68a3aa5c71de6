"""Revision numbers of desired sizes, to measure the time from a change of the desired size to its effect (C40).

Each change of the desired size takes the next number. The number travels with requests and returns in the VM's status.
The difference of the two times is the latency. Times are milliseconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

UPSCALE: Final = 1
DOWNSCALE: Final = 2
"""Flags of a revision. A change that raises one resource and lowers the other has both."""
MAX_IN_FLIGHT: Final = 100
"""Older numbers are dropped, even if they were not observed."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A number with flags. 0 is no revision: there was no change yet."""

    value: int = 0
    flags: int = 0

    def older_of(self, other: Revision) -> Revision:
        """Return the older one."""
        return self if self.value < other.value else other


NO_REVISION: Final = Revision()


@dataclass(frozen=True, slots=True)
class RevisionAt:
    """A revision and the time at which it got there."""

    revision: Revision = NO_REVISION
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Latency:
    """The time that a revision took."""

    ms: int
    flags: int


@dataclass(frozen=True, slots=True)
class Revisions:
    """The next number, and the issue times of the numbers that were not observed yet."""

    first: int = 1
    """Number of the oldest entry of `given_at_ms`."""
    given_at_ms: tuple[int, ...] = ()

    def next(self, now_ms: int, flags: int) -> tuple[Revision, Revisions]:
        """Issue the next number. If too many are in flight, the oldest is dropped."""
        revision = Revision(self.first + len(self.given_at_ms), flags)
        given = (*self.given_at_ms, now_ms)
        dropped = max(0, len(given) - MAX_IN_FLIGHT)
        return revision, Revisions(self.first + dropped, given[dropped:])

    def observe(self, moment_ms: int, revision: Revision) -> tuple[Revisions, Latency | None]:
        """Return the latency of a number, and forget it and all older ones.

        The latency is None if the number was observed already, or was issued by an earlier agent.
        """
        index = revision.value - self.first
        if not 0 <= index < len(self.given_at_ms):
            return self, None
        latency = Latency(moment_ms - self.given_at_ms[index], revision.flags)
        return replace(self, first=revision.value + 1, given_at_ms=self.given_at_ms[index + 1 :]), latency


def newest_revision(now_ms: int, target: RevisionAt, known: Revision) -> tuple[Revision, Latency | None]:
    """Return the newest revision after an answer to `target`, and the latency if that revision is new."""
    if known.value >= target.revision.value:
        return known, None
    return target.revision, Latency(now_ms - target.at_ms, target.revision.flags)
