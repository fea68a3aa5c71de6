"""The table of the reference's section 7, played by the shipped decisions."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from situate.sim.spot.baselines import (
    APP,
    BASELINES,
    Baseline,
    Case,
    WaveFigures,
    deviating_figures,
    simulate_baselines,
    simulate_case,
)
from situate.sim.spot.cluster.delays import BASELINE, LogNormalTime
from situate.sim.spot.policies import Reaction

RUNS = 80
"""Of each line; the command in docs/guides/spot/simulate.md plays the reference's 4,000."""
MORE = {"M=0, make-before-break 120 s, no capacity": 300, "M=0, make-before-break 30 s, free capacity": 200}
"""Of those whose runs differ most beside what is allowed."""


@pytest.mark.verify
@pytest.mark.rule("spot:B33", "spot:S4", "spot:S8", "spot:B20")
@pytest.mark.parametrize("line", BASELINES, ids=lambda line: line.name)
def test_the_table_of_the_reference_is_played(line: Baseline) -> None:
    figures, _ = simulate_case(line.case, Random, runs=MORE.get(line.name, RUNS))
    assert not deviating_figures(figures, line.reference), (
        f"{line.name}: {figures}, the reference says {line.reference}"
    )


def test_what_is_off_is_named() -> None:
    said = WaveFigures(0.3, 66, 82, 840, 5.8)
    assert deviating_figures(WaveFigures(0.3, 71, 82 + 8.1, 840 - 83.9, 6.3), said) == []
    assert deviating_figures(WaveFigures(0.306, 73, 82 - 8.3, 840 - 84.2, 6.4), said) == [
        "cost",
        "outage_s",
        "half_s",
        "pod_s_short",
        "least_ready",
    ]


@pytest.mark.rule("spot:S29", "spot:B20", "spot:I3")
@pytest.mark.parametrize(
    ("case", "outage"),
    [
        pytest.param(Case(replicas=3, notice_s=120), 17.0, id="a Deployment, evicted at the notice"),
        pytest.param(Case(replicas=3, notice_s=120, reaction=Reaction.RELEASE), 0.0, id="a Deployment, released"),
        pytest.param(Case(2, 3, stateful=True, notice_s=120, reaction=Reaction.RELEASE), 0.0, id="a StatefulSet"),
        pytest.param(Case(2, 3, stateful=True), 0.0, id="a StatefulSet, no notice"),
        pytest.param(Case(2, 3, stateful=True, silent=True), 0.0, id="a StatefulSet, silent"),
    ],
)
def test_what_the_reference_says_of_three_replicas(case: Case, outage: float) -> None:
    figures, played = simulate_case(case, Random, runs=40)
    assert figures.outage_s == pytest.approx(outage, abs=5.0 if outage else 0.0)
    if case.stateful:
        assert all(run.outcomes[APP].half_s == 0.0 for run in played)
        assert figures.cost == pytest.approx(0.77, abs=0.005)


@pytest.mark.rule("spot:B33")
def test_measured_delays_foretell_another_cluster() -> None:
    slow = replace(BASELINE, detection_s=100.0, start=LogNormalTime(10.0, 10.0), create_s=0.0, bind_s=0.0)
    figures, _ = simulate_case(Case(2), Random, delays=slow, runs=3)
    assert (figures.outage_s, figures.least_ready) == (0.0, 2.0)
    assert figures.half_s == pytest.approx(110.0)
    assert figures.pod_s_short == pytest.approx(8 * 110.0)


@pytest.mark.rule("spot:P30", "spot:K7", "spot:B25")
def test_a_silent_wave_that_the_controller_sees_is_short() -> None:
    """The reference's 356 s are Kubernetes' alone: a dead node's pods are deleted at once."""
    figures, _ = simulate_case(Case(silent=True, reaction=Reaction.RELEASE), Random, runs=10)
    assert 45 < figures.outage_s < 65


def test_the_grace_period_decides_whether_a_short_notice_helps() -> None:
    short = Case(notice_s=30, reaction=Reaction.RELEASE)
    assert simulate_case(short, Random, runs=10)[0].outage_s == 0.0
    assert simulate_case(replace(short, grace_s=30.0), Random, runs=10)[0].outage_s > 5.0


def test_every_line_has_its_figures() -> None:
    found = simulate_baselines(Random, runs=1)
    assert list(found) == [line.name for line in BASELINES]
    assert found["M=6, no notice, Node deleted, free capacity"].least_ready == 6
