"""A load under the reference's rules and under ours, side by side, and where ours must not be worse (section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from situate.sim.vm.account import Outcome, quantile, together
from situate.sim.vm.agents import TICK_S
from situate.sim.vm.simulation import Simulation
from situate.sim.vm.trace import Trace
from situate.vm.rules import Rules

WAITED_S: Final = 2.0
"""Whoever waits longer than this with either rules has waited: at once it takes an answer and a change of size."""
VARIANTS: Final = {"compat": Rules(compat=True), "default": Rules()}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of equal traces."""

    compat: Outcome
    default: Outcome

    @property
    def waited(self) -> set[tuple[str, float]]:
        """The wishes that had to wait with either. Some of them were granted at once with the other: the mean tells."""
        return self.compat.waiters(WAITED_S) | self.default.waiters(WAITED_S)

    def rows(self) -> list[Row]:
        ours, theirs, waited = self.default, self.compat, self.waited
        times, their_times = ours.times(waited), theirs.times(waited)
        return [
            Row("VM-seconds short", ours.short_s, theirs.short_s, required=True),
            Row("frozen VM-seconds", ours.frozen_s, theirs.frozen_s, required=True),
            Row("overcommitted node-seconds", ours.overcommitted_s, theirs.overcommitted_s, required=True),
            Row("mean s to grant, who waited", _mean(times), _mean(their_times), required=True),
            Row("p50 s to grant, who waited", quantile(times, 0.5), quantile(their_times, 0.5)),
            Row("p99 s to grant, who waited", quantile(times, 0.99), quantile(their_times, 0.99), required=True),
            Row("moves", len(ours.moves), len(theirs.moves), required=True),
            Row("GiB moved", ours.bytes_moved / 2**30, theirs.bytes_moved / 2**30),
            Row("grants denied", ours.denied, theirs.denied),
            Row("claims broken", ours.claims_broken, theirs.claims_broken),
        ]

    def worse(self) -> list[Row]:
        """Of what must be no worse."""
        return [row for row in self.rows() if row.required and row.worse]


@dataclass(frozen=True, slots=True)
class Row:
    """Less is better in each."""

    name: str
    ours: float
    theirs: float
    required: bool = False

    @property
    def worse(self) -> bool:
        return self.ours > self.theirs * (1 + 1e-9)


def _mean(times: Sequence[float]) -> float:
    return sum(times) / len(times) if times else 0.0


def compared(
    traces: Sequence[Trace], tick_s: float = TICK_S, tell: Callable[[str, float], object] = lambda *_: None
) -> Comparison:
    """All traces with each; `tell` hears with which rules and how many seconds of it are over."""

    def played(variant: str) -> Iterable[Outcome]:
        for trace in traces:
            yield Simulation(trace, VARIANTS[variant], tick_s=tick_s, tell=lambda at: tell(variant, at)).play()

    return Comparison(together(played("compat")), together(played("default")))
