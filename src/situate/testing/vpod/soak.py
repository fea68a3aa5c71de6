"""Histories for as long as one likes: seed after seed on every core, resumable, with totals kept for each commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any

import msgspec

from situate.testing import soaking
from situate.testing.vpod.history import FAULTS, generate
from situate.testing.vpod.run import Played, play


class Totals(soaking.Totals):
    """What has been played of one commit."""

    histories: int = 0
    writes: int = 0
    virtual_s: float = 0.0
    happened: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, seed: int, played: Played) -> None:
        """One more history that held."""
        self.played(seed)
        self.histories += 1
        self.writes += played.writes
        self.virtual_s += played.virtual_s
        self.happened = dict(Counter(self.happened) + played.happened)


def played_in_order(first: int, jobs: int, go_on: Callable[[int], bool]) -> Iterator[tuple[int, Played]]:
    """Seeds from `first` on with how they went, in order, on so many processes, until `go_on` says no to a seed."""
    with ProcessPoolExecutor(jobs) as pool:
        under_way: dict[int, Future[Played]] = {}
        begun = told = first
        try:
            while go_on(begun) or under_way:
                while go_on(begun) and len(under_way) < 4 * jobs:
                    under_way[begun] = pool.submit(play_seed, begun)
                    begun += 1
                wait(under_way.values(), timeout=1.0, return_when=FIRST_COMPLETED)
                while told in under_way and under_way[told].done():
                    yield told, under_way.pop(told).result()
                    told += 1
        finally:
            for future in under_way.values():
                future.cancel()


def play_seed(seed: int) -> Played:
    return play(generate(seed))


def table(happened: Counter[str] | dict[str, int]) -> list[str]:
    """How often each row of the fault table occurred, a line each."""
    counts: Counter[str] = Counter(happened)
    lines = []
    for row, names in FAULTS.items():
        each = ", ".join(f"{name} {counts[name]}" for name in names)
        lines.append(f"{row}: {each}")
    return lines


def missing(happened: Counter[str] | dict[str, int]) -> list[str]:
    """Names of the fault table that never occurred."""
    counts: dict[str, Any] = dict(happened)
    return [name for names in FAULTS.values() for name in names if not counts.get(name)]
