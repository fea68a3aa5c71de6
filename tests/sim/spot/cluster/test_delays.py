from __future__ import annotations

from random import Random
from statistics import median, quantiles

import pytest

from situate.sim.spot.cluster.delays import LogNormalTime, NormalTime
from tests.sim.spot.worlds import Unused


@pytest.mark.rule("spot:B33")
def test_starts_have_the_median_and_the_95th_percentile_that_were_asked_for() -> None:
    chance, spread = Random(1), LogNormalTime(25.0, 60.0)
    drawn = [spread.draw(chance) for _ in range(20_000)]
    assert median(drawn) == pytest.approx(25.0, rel=0.03)
    assert quantiles(drawn, n=20)[-1] == pytest.approx(60.0, rel=0.04)


def test_a_time_that_does_not_vary_needs_no_chance() -> None:
    assert LogNormalTime(25.0, 25.0).draw(Unused()) == 25.0
    assert NormalTime(75.0).draw(Unused()) == 75.0


def test_no_time_is_negative() -> None:
    chance = Random(1)
    assert min(NormalTime(1.0, 50.0).draw(chance) for _ in range(1000)) == 0.0
