from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

from situate.objects.settings.section import parse_section
from situate.sim.vpod.demand import Curve, demands, total_curve
from situate.sim.vpod.settings import DemandSettings
from tests.sim.vpod.scenarios import scenario


def curve(duration: float = 3600.0, **shapes: Any) -> Curve:
    settings, mistakes = parse_section(shapes, DemandSettings)
    assert settings is not None, mistakes
    return total_curve(settings, duration, Random(1))


def test_steps_begin_at_their_times() -> None:
    assert curve(steps={"10m": 3, "0s": 5}) == [(0.0, 5.0), (600.0, 3.0)]


def test_a_sine_is_high_at_its_peak_and_low_half_a_period_later() -> None:
    points = dict(curve(sine={"low": 2, "high": 10, "period": "40m", "peakAt": "10m", "every": "5m"}))
    assert (points[600.0], points[1800.0]) == (10.0, 2.0)
    assert set(points.values()) <= {2.0, 3.0, 6.0, 9.0, 10.0}


def test_bursts_end() -> None:
    bursts = {"height": 4, "every": "20m", "lasting": "5m"}
    assert curve(steady=1, bursts=bursts) == [
        (0.0, 5.0),
        (300.0, 1.0),
        (1200.0, 5.0),
        (1500.0, 1.0),
        (2400.0, 5.0),
        (2700.0, 1.0),
    ]


def test_bursts_may_not_happen() -> None:
    assert curve(steady=1, bursts={"height": 4, "every": "20m", "lasting": "5m", "chance": 0}) == [(0.0, 1.0)]


def test_a_walk_stays_within_its_bounds_and_moves() -> None:
    values = [value for _, value in curve(36_000, walk={"start": 4, "low": 2, "high": 6, "step": 2, "every": "1m"})]
    assert (min(values), max(values), len(values)) == (2.0, 6.0, 600)
    assert max(abs(after - before) for before, after in pairwise(values)) == 2.0


def test_sources_of_a_kind_arrive_one_after_the_other_and_leave() -> None:
    source = {"name": "s", "demand": 3, "count": 2, "arrives": "1m", "stagger": "2m", "leaves": "10m"}
    first, second = demands(scenario(sources=[source]).settings, Random)
    assert (first.key.name, first.changes) == ("s-0", ((60.0, 3), (600.0, None)))
    assert (second.key.name, second.changes) == ("s-1", ((180.0, 3), (600.0, None)))


def test_who_would_arrive_after_leaving_never_comes() -> None:
    source = {"name": "s", "demand": 3, "count": 2, "stagger": "20m", "leaves": "10m"}
    assert [each.changes for each in demands(scenario(sources=[source]).settings, Random)][1] == ()


def test_each_source_has_its_own_chance_and_the_seed_decides() -> None:
    source = {"name": "s", "count": 2, "demand": {"walk": {"start": 5, "high": 10, "every": "1m"}}}
    one, two = (each.changes for each in demands(scenario(sources=[source]).settings, Random))
    again, _ = (each.changes for each in demands(scenario(sources=[source]).settings, Random))
    other, _ = (each.changes for each in demands(scenario(sources=[source], seed=2).settings, Random))
    assert one == again
    assert one != two
    assert one != other
