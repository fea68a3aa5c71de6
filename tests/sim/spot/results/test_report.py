from __future__ import annotations

import pytest

from situate.sim.spot.results.account import EndCause, RunResult, ServiceOutcome
from situate.sim.spot.results.report import Band, Distribution, build_report


def test_percentiles_are_values_that_occurred() -> None:
    found = Distribution.from_values(range(100, 0, -1))
    assert (found.least, found.p5, found.p50, found.p95, found.most) == (1, 5, 50, 95, 100)
    assert found.mean == pytest.approx(50.5)
    assert Distribution.from_values([7.0]) == Distribution(7.0, 7.0, 7.0, 7.0, 7.0, 7.0)


def test_a_band_is_made_moment_by_moment() -> None:
    band = Band.from_runs([(0, 9), (5, 7), (10, 8)])
    assert (list(band.low), list(band.middle), list(band.high)) == ([0, 7], [5, 8], [10, 9])


def test_workloads_are_told_apart_and_together() -> None:
    def played(outage: float, least: int) -> RunResult:
        outcomes = {"web": ServiceOutcome(4, outage, 10.0, 20.0, 0), "db": ServiceOutcome(3, 5.0, 6.0, 7.0, 1)}
        return RunResult(outcomes, 0.5, {EndCause.LOST: 2, EndCause.ROLLOUT: 3}, (7, 5), (1, 1), least)

    found = build_report("all-spot", [played(2.0, 1), played(4.0, 3)], (0.0, 60.0))
    assert (found.policy, found.runs, found.restarts.mean) == ("all-spot", 2, 2.0)
    assert found.workloads["web"].outage_s.mean == 3.0
    assert (found.together.outage_s.mean, found.together.half_s.mean, found.together.pod_s_short.mean) == (
        8.0,
        16.0,
        27.0,
    )
    assert found.together.least_ready.mean == 2.0
    assert found.endings == {"lost": 2.0, "rollout": 3.0}
    data = found.as_data()
    assert data["workloads"]["db"]["leastReady"]["most"] == 1
    assert data["series"]["time"] == [0.0, 60.0]
