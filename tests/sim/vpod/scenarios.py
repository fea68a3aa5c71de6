"""Small scenarios for the tests, and their reports."""

from __future__ import annotations

from random import Random
from typing import Any

from situate.sim.vpod.report import VariantReport
from situate.sim.vpod.scenario import VPodScenario, parse_scenario
from situate.sim.vpod.simulation import VPodSimulation


def data(**changed: Any) -> dict[str, Any]:
    """An hour of one source that wants 12, on pods of 6; three zones of two nodes."""
    base: dict[str, Any] = {
        "duration": "1h",
        "cluster": {"zones": {"a": 2, "b": 2, "c": 2}, "podStartDelay": "10s", "podStopDelay": "5s"},
        "vpod": {"podCapacity": 6},
        "sources": [{"name": "orders", "demand": 12}],
    }
    return base | changed


def scenario(**changed: Any) -> VPodScenario:
    parsed, mistakes = parse_scenario(data(**changed))
    assert parsed is not None, mistakes
    return parsed


def reports(**changed: Any) -> dict[str, VariantReport]:
    """By variant."""
    parsed = scenario(**changed)
    found = {}
    for variant in parsed.variants:
        simulation = VPodSimulation(parsed, variant, Random)
        for when in parsed.sample_times():
            simulation.advance(when)
        found[variant.name] = simulation.report()
    return found


def only_report(**changed: Any) -> VariantReport:
    (report,) = reports(**changed).values()
    return report
