"""Prices, savings and risks (B29, B30, B32, B47)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from situate.spot.model.misplaced_pods import Workload
from situate.spot.nodes import savings
from situate.spot.nodes.prices import NO_PRICES, parse_prices
from situate.spot.report.cost_report import cost_report
from situate.spot.report.wave_impact import Pace, WaveLoss, wave_loss
from tests.spot.builders import NODES, owner, pods, workload

TEXT = """
date: 2026-11-01
currency: EUR
prices:
- {instanceType: m5, onDemand: 0.10, spot: 0.03}
- {instanceType: m5, zone: b, onDemand: 0.12, spot: 0.06}
- {instanceType: c5, onDemand: 0.20}
"""
PLACES = {
    "od": replace(NODES["od"], instance_type="m5", cpu_milli=4000),
    "spot": replace(NODES["spot"], instance_type="m5", cpu_milli=4000),
    "spot-b": replace(NODES["spot"], name="spot-b", instance_type="m5", zone="b"),
    "other": replace(NODES["spot"], name="other", instance_type="x9"),
}


@pytest.mark.rule("spot:B47")
def test_prices_are_read_by_instance_type_and_zone() -> None:
    prices, mistakes = parse_prices(TEXT, "prices.yaml")
    assert mistakes == ()
    assert (prices.date, prices.currency) == ("2026-11-01", "EUR")
    for zone, discount in (("a", 0.7), ("b", 0.5)):
        found, known = prices.discount("m5", zone)
        assert known
        assert found == pytest.approx(discount)
    assert prices.discount("c5", "a") == (0.7, False), "not offered as spot"
    assert prices.discount("unknown", "a") == (0.7, False)
    assert prices.price("unknown", "a") is None


@pytest.mark.rule("spot:B47")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prices: []", "p.date: missing"),
        ("- 1", "allowed: a mapping with the keys date, currency, prices"),
        ("date: x\nprices: 3", "p.prices: found 3, allowed: a list of prices"),
        ("date: x\nprices: [{instanceType: a, onDemand: 0}]", "p.prices[0].onDemand: found 0"),
        ("date: x\nprices: []", 'p.date: found "x", allowed: the date of the prices'),
        ("date: '2026-13-01'\nprices: []", 'p.date: found "2026-13-01"'),
        ("date: x\nprices: [{instanceType: a, onDemand: 1.0e+7}]", "found 10000000.0, allowed: a price of one hour"),
        ("date: x\nprices: [{instanceType: a, onDemand: .nan}]", "p.prices[0].onDemand: found NaN"),
        ("date: x\nprices: [{instanceType: a, onDemand: 1, spot: 2}]", "p.prices[0].spot: found 2.0, allowed: 0 to"),
        ("date: x\nprices: [{instanceType: a, onDemand: 1, spot: -1}]", "p.prices[0].spot: found -1"),
        ("date: x\nprices: [{onDemand: 1}]", "p.prices[0].instanceType: missing"),
        ("date: [", "p"),
    ],
)
def test_prices_that_are_missing_or_absurd_are_named(text: str, message: str) -> None:
    prices, mistakes = parse_prices(text, "p")
    assert prices.by_place == {}
    assert any(message in str(mistake) for mistake in mistakes), mistakes
    good, named = parse_prices(
        "date: 2026-11-01\nprices: [{instanceType: a, onDemand: -1}, {instanceType: b, onDemand: 1}]", "p"
    )
    assert (list(good.by_place), len(named)) == ([("b", "")], 1), "the others count"
    twice = "date: 2026-11-01\nprices: [{instanceType: b, onDemand: 1}, {instanceType: b, onDemand: 2}]"
    first, (again,) = parse_prices(twice, "p")
    assert first.by_place["b", ""].on_demand == 1
    assert str(again).startswith("p.prices[1]: found b, allowed: each instance type and zone once")


@pytest.mark.rule("spot:B29", "spot:B47")
def test_the_report_of_costs() -> None:
    prices, _ = parse_prices(TEXT, "p")
    given = [replace(each, cpu_milli=1000) for each in pods("od:2 spot:2")]
    given[3] = replace(given[3], node="spot-b")
    report = cost_report([Workload(owner(4), 1, given)], PLACES, prices, waves_per_month=2)
    (line,) = report.workloads
    assert line.discount == pytest.approx(0.6)
    assert [line.share, line.share_at_target, report.saving, report.achievable] == pytest.approx([0.7, 0.55, 0.3, 0.45])
    assert report.nodes_per_hour == pytest.approx(0.10 + 0.03 + 0.06)
    assert report.nodes_on_demand_per_hour == pytest.approx(0.10 + 0.10 + 0.12)
    assert report.unpriced == ("x9",)
    assert line.outage_s_per_month == 0
    assert line.one_more == pytest.approx(0.1 * 0.7 * 0.25 * 730)
    exposed = cost_report([workload(0, "spot:2")], PLACES, prices, waves_per_month=2)
    assert exposed.workloads[0].outage_s_per_month == 2 * 80


@pytest.mark.rule("spot:B29", "spot:B47")
def test_without_prices_every_figure_says_so() -> None:
    report = cost_report([workload(2, "od:2 spot:8")], NODES, NO_PRICES)
    assert report.workloads[0].share == pytest.approx(0.44)
    assert not report.workloads[0].priced
    assert (report.date, report.nodes_per_hour, report.workloads[0].one_more) == ("", None, None)
    assert cost_report([], NODES, NO_PRICES).saving == 0
    assert cost_report([workload(0, "")], NODES, NO_PRICES).workloads[0].share == 1


@pytest.mark.rule("spot:B30")
def test_risk() -> None:
    hazard = savings.hazard_per_hour(0.10)
    assert hazard == pytest.approx(1.443e-4, rel=1e-3)
    assert savings.mean_hours_between(hazard) == pytest.approx(6929, rel=1e-3)
    assert savings.any_interruption_probability(0.10, 8) == pytest.approx(0.57, abs=0.005)
    assert savings.hazard_per_hour(1) == float("inf")
    assert savings.mean_hours_between(0) == float("inf")
    assert savings.break_even_hours(1, 1, 0, 1) == float("inf")
    assert savings.outages_exceed_premium(2, 1)
    assert not savings.outages_exceed_premium(1, 1)


@pytest.mark.rule("spot:B32", "spot:I2", "spot:I3")
@pytest.mark.parametrize(
    ("spec", "fit", "want"),
    [
        ("od:2 spot:8", 8, WaveLoss(10, 2, 0, 80, 8)),
        ("od:6 spot:4", 4, WaveLoss(10, 6, 0, 0, 4)),
        ("spot:3", 3, WaveLoss(3, 0, 80, 80, 3)),
        ("spot:3", 1, WaveLoss(3, 0, 80, 155, 1)),
        ("spot:3", 0, WaveLoss(3, 0, 155, 155, 0)),
        ("", 0, WaveLoss(0, 0, 0, 0, 0)),
    ],
)
def test_if_all_spot_ended_now(spec: str, fit: int, want: WaveLoss) -> None:
    assert wave_loss(workload(2, spec), NODES, Pace(), fit=fit) == want
