"""Compare a load under upstream's rules and under ours, and find where ours are worse (docs/spec/vm.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, assert_never

from situate.sim.vm.account import RunOutcome, combine_outcomes
from situate.sim.vm.agents import TICK_S
from situate.sim.vm.simulation import VMSimulation
from situate.sim.vm.trace import Trace
from situate.vm.model.policy import Rules

WAIT_THRESHOLD_S: Final = 2.0
"""Seconds above which a request counts as having waited. A prompt grant takes an answer and a resize."""
VARIANTS: Final = {"compat": Rules(compat=True), "default": Rules()}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of both rules on equal traces."""

    compat: RunOutcome
    default: RunOutcome

    @property
    def waiting_requests(self) -> set[tuple[str, float]]:
        """Return the requests that waited under either rules.

        Some of them were granted at once under the other rules, which shows in the mean.
        """
        return self.compat.requests_waiting_longer(WAIT_THRESHOLD_S) | self.default.requests_waiting_longer(
            WAIT_THRESHOLD_S
        )

    def rows(self) -> list[Row]:
        ours, theirs, waited = self.default, self.compat, self.waiting_requests
        times, their_times = ours.wait_times(waited), theirs.wait_times(waited)
        return [
            Row("VM-seconds short", ours.short_s, theirs.short_s, Bound.NO_WORSE),
            Row("frozen VM-seconds", ours.frozen_s, theirs.frozen_s, Bound.NO_WORSE),
            Row("overcommitted node-seconds", ours.overcommitted_s, theirs.overcommitted_s, Bound.NO_WORSE),
            self._grant_row("p50 s to grant, if waiting", 0.5),
            self._grant_row("p99 s to grant, if waiting", 0.99),
            Row("mean s to grant, if waiting", _mean(times), _mean(their_times)),
            Row("moves", len(ours.moves), len(theirs.moves), Bound.BETTER),
            Row("GiB moved", ours.bytes_moved / 2**30, theirs.bytes_moved / 2**30),
            Row("grants denied", ours.denied, theirs.denied),
            Row("claims broken", ours.claims_broken, theirs.claims_broken),
        ]

    def _grant_row(self, name: str, share: float) -> Row:
        """Build the row of a quantile. If neither rules granted the request, its duration cannot improve."""
        ours, theirs = (each.wait_quantile(share, self.waiting_requests) for each in (self.default, self.compat))
        bound = Bound.BETTER if ours.granted or theirs.granted else Bound.NO_WORSE
        return Row(name, ours.seconds, theirs.seconds, bound)

    def failing_rows(self) -> list[Row]:
        """Return the rows that miss their bound."""
        return [row for row in self.rows() if not row.is_met]


class Bound(Enum):
    """The bound of our figure relative to upstream's (docs/spec/vm.md)."""

    NONE = "none"
    NO_WORSE = "no worse"
    BETTER = "better"
    """Strictly better. If upstream's figure is 0, ours must be 0."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of both rules. Lower is better."""

    name: str
    ours: float
    theirs: float
    bound: Bound = Bound.NONE

    @property
    def maximum(self) -> float | None:
        """Return the maximum of our figure. None: no bound."""
        match self.bound:
            case Bound.NONE:
                return None
            case Bound.NO_WORSE:
                return self.theirs * (1 + 1e-9)
            case Bound.BETTER:
                return math.nextafter(self.theirs, 0.0)
            case _:
                assert_never(self.bound)

    @property
    def is_met(self) -> bool:
        return self.maximum is None or self.ours <= self.maximum


def _mean(times: Sequence[float]) -> float:
    return sum(times) / len(times) if times else 0.0


def compare_traces(
    traces: Sequence[Trace], tick_s: float = TICK_S, tell: Callable[[str, float], object] = lambda *_: None
) -> Comparison:
    """Play all traces under both rules. `tell` is called with the rules' name and the elapsed seconds."""

    def played(variant: str) -> Iterable[RunOutcome]:
        for trace in traces:
            yield VMSimulation(trace, VARIANTS[variant], tick_s=tick_s, tell=lambda at: tell(variant, at)).play()

    return Comparison(combine_outcomes(played("compat")), combine_outcomes(played("default")))
