"""How many units a load needs (C37)."""

from __future__ import annotations

import pytest

from situate.vm.agent.decide.goal import (
    TOO_FEW_VALUES,
    WITHOUT_ALL_METRICS,
    CacheMetrics,
    SystemMetrics,
    goal,
    round_half_away,
)
from situate.vm.agent.decide.scaling import Scaling
from tests.vm.agent.builders import GIB, UNIT

pytestmark = pytest.mark.rule("vm:C37")


@pytest.mark.parametrize(
    ("value", "want"),
    [(0.5, 1), (1.5, 2), (2.5, 3), (0.49999999999999994, 0), (-0.5, -1), (4503599627370497.0, 4503599627370497.0)],
)
def test_halves_go_away_from_zero(value: float, want: float) -> None:
    assert round_half_away(value) == want


@pytest.mark.parametrize(
    ("load1", "load5", "want"),
    [
        pytest.param(0.9, 0.9, 4.0, id="both alike"),
        pytest.param(0.9, 0.0, 4.0, id="without zones the newest load counts"),
        pytest.param(0.0, 0.9, 0.0, id="downwards too"),
    ],
)
def test_without_zones_the_1_minute_load_counts(load1: float, load5: float, want: float) -> None:
    assert goal(Scaling(), UNIT, SystemMetrics(load1, load5, 0.0), None).cpu == pytest.approx(want)


@pytest.mark.parametrize(
    ("load1", "want"),
    [
        pytest.param(1.5, 1.0, id="stable: the 5-minute load alone"),
        pytest.param(2.0, 2.0, id="beyond both zones: the 1-minute load alone"),
        pytest.param(1.75, 1.375, id="between: mixed"),
    ],
)
def test_zones_mix_the_two_loads(load1: float, want: float) -> None:
    scaling = Scaling(load_average_fraction_target=1.0, cpu_stable_zone_ratio=0.5, cpu_mixed_zone_ratio=0.5)
    found = goal(scaling, UNIT, SystemMetrics(load1, 1.0, 0.0), None)
    assert found.cpu == pytest.approx(want / 0.25, abs=1e-5)


def test_the_processors_share_is_rounded_and_memory_is_not() -> None:
    scaling = Scaling(load_average_fraction_target=1.0, memory_usage_fraction_target=1.0)
    assert goal(scaling, UNIT, SystemMetrics(0.3, 0.3, 0.0), None).units == 1  # 1.2 units
    assert goal(scaling, UNIT, SystemMetrics(0.0, 0.0, 1.2 * GIB), None).units == 2


def test_the_working_set_counts_as_far_as_it_is_cached() -> None:
    series = tuple(float(GIB // 8192) for _ in range(60))  # a GiB, whatever the window
    system = SystemMetrics(0.0, 0.0, memory_used=0.5 * GIB, memory_cached=0.4 * GIB)
    found = goal(Scaling(enable_lfc_metrics=True), UNIT, system, CacheMetrics(series))
    assert found.cache == pytest.approx(1 / 0.75)
    assert found.memory == pytest.approx((0.4 + 0.5) / 0.9)
    assert found.has_all_metrics


def test_a_series_that_is_too_short_says_so_and_needs_nothing() -> None:
    system = SystemMetrics(0.0, 0.0, 0.0, memory_cached=9.0 * GIB)
    found = goal(Scaling(enable_lfc_metrics=True), UNIT, system, CacheMetrics((1e9,) * 8))  # 4 + 5 are due
    assert (found.cache, found.memory, found.warnings) == (0.0, 0.0, (TOO_FEW_VALUES,))


def test_what_is_not_known_is_said() -> None:
    found = goal(Scaling(enable_lfc_metrics=True), UNIT, SystemMetrics(0.0, 0.0, 0.0), None)
    assert (found.has_all_metrics, found.warnings) == (False, (WITHOUT_ALL_METRICS,))
    assert goal(Scaling(), UNIT, None, None).units == 0
