"""Numbers for wishes, so that the time from a wish to its effect can be told (C40).

Each change of what is wanted takes the next number. The number travels with requests, comes back in the machine's
status, and the difference of the two times is the latency. Times are milliseconds of the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

UPSCALE: Final = 1
DOWNSCALE: Final = 2
"""Flags of a revision; a change that raises one resource and lowers the other has both."""
MOST_IN_FLIGHT: Final = 100
"""Older numbers are forgotten unobserved."""


@dataclass(frozen=True, slots=True)
class Revision:
    """0 is no revision: nothing was wanted yet."""

    value: int = 0
    flags: int = 0

    def least(self, other: Revision) -> Revision:
        """The older one."""
        return self if self.value < other.value else other


NO_REVISION: Final = Revision()


@dataclass(frozen=True, slots=True)
class RevisionAt:
    """A revision and when it got where it is."""

    revision: Revision = NO_REVISION
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Latency:
    """How long a revision took."""

    ms: int
    flags: int


@dataclass(frozen=True, slots=True)
class Revisions:
    """The next number, and when those were given out that nobody has observed."""

    first: int = 1
    """The number of the oldest entry of `given_at_ms`."""
    given_at_ms: tuple[int, ...] = ()

    def next(self, now_ms: int, flags: int) -> tuple[Revision, Revisions]:
        """The next number. The oldest is forgotten when too many are in flight."""
        revision = Revision(self.first + len(self.given_at_ms), flags)
        given = (*self.given_at_ms, now_ms)
        dropped = max(0, len(given) - MOST_IN_FLIGHT)
        return revision, Revisions(self.first + dropped, given[dropped:])

    def observe(self, moment_ms: int, revision: Revision) -> tuple[Revisions, Latency | None]:
        """How long it took; that number and all older ones are forgotten.

        None for a number that was observed already, or that was never given out here: an agent before us gave it.
        """
        index = revision.value - self.first
        if not 0 <= index < len(self.given_at_ms):
            return self, None
        latency = Latency(moment_ms - self.given_at_ms[index], revision.flags)
        return replace(self, first=revision.value + 1, given_at_ms=self.given_at_ms[index + 1 :]), latency


def propagated(now_ms: int, target: RevisionAt, known: Revision) -> tuple[Revision, Latency | None]:
    """What is known by somebody who has answered to `target`, and how long the answer took if that is news."""
    if known.value >= target.revision.value:
        return known, None
    return target.revision, Latency(now_ms - target.at_ms, target.revision.flags)
