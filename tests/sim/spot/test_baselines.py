"""The table of the reference's section 7, played by the shipped decisions."""

from __future__ import annotations

from random import Random

import pytest

from situate.sim.spot.baselines import BASELINES, Baseline, allowed, expected

RUNS = 200
"""Of each line; the command in docs/spot-simulation.md plays the reference's 4,000."""


@pytest.mark.rule("spot:B33", "spot:S4", "spot:S8", "spot:B20")
@pytest.mark.parametrize("line", BASELINES, ids=lambda line: line.name)
def test_the_table_of_the_reference_is_played(line: Baseline) -> None:
    figures, _ = expected(line.case, Random, runs=RUNS)
    said = line.reference
    for name, have, want, least in (
        ("cost", figures.cost, said.cost, 0.005),
        ("outage", figures.outage_s, said.outage_s, 5.0),
        ("at or under half", figures.half_s, said.half_s, 5.0),
        ("pod-seconds short", figures.pod_s_short, said.pod_s_short, 5.0),
        ("least ready", figures.least_ready, said.least_ready, 0.5),
    ):
        assert abs(have - want) <= allowed(want, least), f"{line.name}: {name} is {have:.2f}, the reference says {want}"
