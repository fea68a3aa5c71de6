from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from random import Random

import pytest

from situate.sim.spot.picture import focus, picture, sample_times
from situate.sim.spot.policies import BY_NAME
from situate.sim.spot.report import report
from situate.sim.spot.scenarios import SCENARIOS, RollOut, Scenario, Wave
from situate.sim.spot.simulation import Simulation

SVG = "{http://www.w3.org/2000/svg}"
SHORT = Scenario("a <short> one", 600.0, (Wave(60.0),))


def drawn(scenario: Scenario, *policies: str) -> ET.Element:
    samples = sample_times(scenario)
    reports = [
        report(name, [Simulation(scenario, BY_NAME[name], samples).play(Random(1))], samples) for name in policies
    ]
    return ET.fromstring(picture(scenario.name, scenario, reports))


def test_each_policy_has_a_panel_with_its_figures() -> None:
    svg = drawn(SHORT, "all-spot", "floor-release")
    texts = [each.text or "" for each in svg.iter(f"{SVG}text")]
    assert "a <short> one" in texts
    assert [text for text in texts if text in BY_NAME] == ["all-spot", "floor-release"]
    (spot, release) = [text for text in texts if text.startswith("cost ")]
    assert "outage 0 s" in release
    assert "outage 0 s" not in spot


def test_everything_is_drawn_inside_the_picture() -> None:
    svg = drawn(replace(SHORT, duration_s=7200.0), "note-default", "floor-return")
    width, height = float(svg.attrib["width"]), float(svg.attrib["height"])
    for path in svg.iter(f"{SVG}path"):
        numbers = [float(each) for each in re.findall(r"-?\d+\.?\d*", re.sub(r"h16", "", path.attrib["d"]))]
        assert numbers
        assert all(0 <= number <= max(width, height) for number in numbers)
    for rect in svg.iter(f"{SVG}rect"):
        assert float(rect.attrib.get("x", 0)) + float(rect.attrib["width"]) <= width
        assert float(rect.attrib["width"]) >= 0


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_the_first_wave_is_shown_closer(scenario: Scenario) -> None:
    times = sample_times(scenario)
    assert times == sorted(set(times))
    assert (times[0], times[-1]) == (0.0, scenario.duration_s)
    waves = [event for event in scenario.events if isinstance(event, Wave)]
    close = focus(scenario)
    assert (close is None) is (not waves)
    if close is not None:
        begin, end = close
        assert begin < waves[0].at_s < end
        assert sum(begin <= each <= end for each in times) > 240


def test_what_is_short_or_has_no_wave_is_shown_once() -> None:
    assert focus(Scenario("short", 300.0, (Wave(60.0),))) is None
    assert focus(Scenario("calm", 7200.0, (RollOut(60.0),))) is None
