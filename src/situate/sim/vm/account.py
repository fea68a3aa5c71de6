"""What a simulated load cost: who waited how long, who moved, and what was short or too much, over time (section 6)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

WishKey: TypeAlias = tuple[str, float]
"""Of a wish for more: who, and when. The same in every run of a trace."""


@dataclass(frozen=True, slots=True)
class Waited:
    seconds: float
    """From the wish until the machine uses it all; of one that never did, as long as it was wished."""
    granted: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one run."""

    waits: dict[WishKey, Waited]
    denied: int
    """Answers to agents that were less than asked for."""
    moves: tuple[float, ...]
    """When each was begun."""
    completed: int
    """Of them."""
    bytes_moved: int
    frozen_s: float
    """Machine-seconds in which a move kept a size from changing."""
    short_s: float
    """Machine-seconds with less than wished for, or not running."""
    overcommitted_s: float
    """Node-seconds with more booked than there is."""
    claims_broken: int

    def times(self, of: Collection[WishKey] | None = None) -> list[float]:
        """Of these wishes, or of all, ascending."""
        return sorted(waited.seconds for key, waited in self.waits.items() if of is None or key in of)

    def waited(self, share: float, of: Collection[WishKey]) -> Waited:
        """Of these wishes the one that so many waited no longer than; of none, one that was granted at once."""
        found = sorted((each.seconds, not each.granted) for key, each in self.waits.items() if key in of)
        if not found:
            return Waited(0.0, granted=True)
        seconds, never = found[rank(share, len(found))]
        return Waited(seconds, not never)

    def waiters(self, longer_than_s: float) -> set[WishKey]:
        return {key for key, waited in self.waits.items() if waited.seconds > longer_than_s}

    def as_data(self) -> dict[str, Any]:
        times = self.times()
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
    """The smallest value that this share is not above; 0 of nothing."""
    return ascending[rank(share, len(ascending))] if ascending else 0.0


def rank(share: float, count: int) -> int:
    """Place in ascending order, from 0, of the smallest that this share of so many is not above."""
    return max(0, math.ceil(share * count) - 1)


class Account:
    """Mutable, of one run."""

    def __init__(self) -> None:
        self.denied = self.completed = self.bytes_moved = self.claims_broken = 0
        self.moves: list[float] = []
        self._waits: dict[WishKey, Waited] = {}
        self._open: dict[str, WishKey] = {}
        self._frozen_s = self._short_s = self._over_s = 0.0

    def pass_time(self, seconds: float, frozen: int, short: int, over: int) -> None:
        """So many machines and nodes were so for so long."""
        self._frozen_s += frozen * seconds
        self._short_s += short * seconds
        self._over_s += over * seconds

    def wished(self, who: str, now: float, *, more: bool) -> None:
        """Another wish ends the one before; one for no more is nothing to wait for."""
        self._end(who, now, granted=False)
        if more:
            self._open[who] = (who, now)

    def granted(self, who: str, now: float) -> None:
        self._end(who, now, granted=True)

    def _end(self, who: str, now: float, *, granted: bool) -> None:
        key = self._open.pop(who, None)
        if key is not None:
            self._waits[key] = Waited(now - key[1], granted)

    def outcome(self, now: float) -> Outcome:
        for who in list(self._open):
            self._end(who, now, granted=False)
        return Outcome(
            self._waits,
            self.denied,
            tuple(self.moves),
            self.completed,
            self.bytes_moved,
            self._frozen_s,
            self._short_s,
            self._over_s,
            self.claims_broken,
        )


def together(outcomes: Iterable[Outcome]) -> Outcome:
    """Several runs as one: sums, and all wishes."""
    found = list(outcomes)
    waits = {(f"{number}/{who}", at): each for number, one in enumerate(found) for (who, at), each in one.waits.items()}
    return Outcome(
        waits,
        sum(each.denied for each in found),
        tuple(at for each in found for at in each.moves),
        sum(each.completed for each in found),
        sum(each.bytes_moved for each in found),
        sum(each.frozen_s for each in found),
        sum(each.short_s for each in found),
        sum(each.overcommitted_s for each in found),
        sum(each.claims_broken for each in found),
    )
