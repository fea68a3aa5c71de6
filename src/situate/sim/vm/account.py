"""The cost of a simulated load: waiting times, migrations, shortage and excess over time (docs/spec/vm.md)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

RequestKey: TypeAlias = tuple[str, float]
"""VM and time of a request for more. Equal in every run of a trace."""
_SUMS: Final = ("denied", "completed", "bytes_moved", "frozen_s", "short_s", "overcommitted_s", "claims_broken")


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float
    """Seconds from the request until the VM uses all of it. If it never does, how long the request lasted."""
    granted: bool


@dataclass(slots=True)
class RunOutcome:
    """The result of one run, or of several runs together."""

    waits: dict[RequestKey, Wait] = field(default_factory=dict)
    denied: int = 0
    """Number of answers to agents below the request."""
    moves: list[float] = field(default_factory=list)
    """Start times of the migrations."""
    completed: int = 0
    """Number of completed migrations."""
    bytes_moved: int = 0
    frozen_s: float = 0.0
    """VM-seconds in which a migration blocked a resize."""
    short_s: float = 0.0
    """VM-seconds with less than requested, or not running."""
    overcommitted_s: float = 0.0
    """Node-seconds with more reserved than Total."""
    claims_broken: int = 0

    def wait_times(self, of: Collection[RequestKey] | None = None) -> list[float]:
        """Return the waiting times of these requests, or of all, ascending."""
        return sorted(waited.seconds for key, waited in self.waits.items() if of is None or key in of)

    def wait_quantile(self, share: float, of: Collection[RequestKey]) -> Wait:
        """Return the wait that this share of the requests does not exceed. Without requests, an immediate grant."""
        found = sorted((each.seconds, not each.granted) for key, each in self.waits.items() if key in of)
        if not found:
            return Wait(0.0, granted=True)
        seconds, never = found[rank(share, len(found))]
        return Wait(seconds, not never)

    def requests_waiting_longer(self, longer_than_s: float) -> set[RequestKey]:
        return {key for key, waited in self.waits.items() if waited.seconds > longer_than_s}

    def as_data(self) -> dict[str, Any]:
        times = self.wait_times()
        return {
            "wishes": len(times),
            "wishes_granted": sum(waited.granted for waited in self.waits.values()),
            "grants_denied": self.denied,
            "time_to_grant_s_p50": round(quantile(times, 0.5), 3),
            "time_to_grant_s_p99": round(quantile(times, 0.99), 3),
            "moves": len(self.moves),
            "moves_completed": self.completed,
            "gib_moved": round(self.bytes_moved / 2**30, 2),
            "frozen_s": round(self.frozen_s, 1),
            "vm_s_short": round(self.short_s, 1),
            "overcommitted_node_s": round(self.overcommitted_s, 1),
            "claims_broken": self.claims_broken,
        }


def quantile(ascending: Sequence[float], share: float) -> float:
    """Return the smallest value that this share does not exceed. 0 without values."""
    return ascending[rank(share, len(ascending))] if ascending else 0.0


def rank(share: float, count: int) -> int:
    """Return the index in ascending order of the smallest value that this share does not exceed."""
    return max(0, math.ceil(share * count) - 1)


class VMAccount:
    """The account of one run. `result` is complete once the account is closed."""

    def __init__(self) -> None:
        self.result = RunOutcome()
        self._open: dict[str, RequestKey] = {}

    def pass_time(self, seconds: float, frozen: int, short: int, over: int) -> None:
        """Add a period with these numbers of frozen VMs, short VMs and overcommitted nodes."""
        result = self.result
        result.frozen_s += frozen * seconds
        result.short_s += short * seconds
        result.overcommitted_s += over * seconds

    def record_request(self, who: str, now: float, *, more: bool) -> None:
        """Record a request, which ends the previous one. A request for no more has no wait."""
        self._end_request(who, now, granted=False)
        if more:
            self._open[who] = (who, now)

    def record_grant(self, who: str, now: float) -> None:
        self._end_request(who, now, granted=True)

    def _end_request(self, who: str, now: float, *, granted: bool) -> None:
        key = self._open.pop(who, None)
        if key is not None:
            self.result.waits[key] = Wait(now - key[1], granted)

    def close(self, now: float) -> RunOutcome:
        for who in list(self._open):
            self._end_request(who, now, granted=False)
        return self.result


def combine_outcomes(outcomes: Iterable[RunOutcome]) -> RunOutcome:
    """Combine several runs into one: sums, and all requests."""
    found = list(outcomes)
    waits = {(f"{number}/{who}", at): each for number, one in enumerate(found) for (who, at), each in one.waits.items()}
    moves = [at for each in found for at in each.moves]
    sums: dict[str, Any] = {name: sum(getattr(each, name) for each in found) for name in _SUMS}
    return RunOutcome(waits, moves=moves, **sums)
