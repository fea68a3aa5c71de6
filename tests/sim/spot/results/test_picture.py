from __future__ import annotations

import colorsys
import re
import xml.etree.ElementTree as ET
from itertools import combinations
from random import Random

import pytest
from msgspec.structs import replace

from situate.sim.spot.policies import BY_NAME
from situate.sim.spot.results.picture import columns, render_picture, sample_times
from situate.sim.spot.results.report import build_report
from situate.sim.spot.scenarios import SCENARIOS
from situate.sim.spot.settings import (
    SpotEventSettings,
    SpotScenarioSettings,
    SpotSection,
    WaveSettings,
    WorkloadSettings,
)
from situate.sim.spot.simulation import SpotSimulation

SVG = "{http://www.w3.org/2000/svg}"


def scenario_of(title: str, duration: float, *events: SpotEventSettings) -> SpotScenarioSettings:
    workloads = (WorkloadSettings(name="web", floor="2"),)
    return SpotScenarioSettings(title=title, duration=duration, spot=SpotSection(), workloads=workloads, events=events)


def wave(at: float, back_after: float | None = None) -> SpotEventSettings:
    return SpotEventSettings(at=at, wave=WaveSettings(back_after=back_after))


SHORT = scenario_of("a <short> one", 600.0, wave(60.0))


def drawn(scenario: SpotScenarioSettings, *policies: str) -> ET.Element:
    samples = sample_times(scenario)
    reports = [
        build_report(name, [SpotSimulation(scenario, BY_NAME[name], samples).play(Random(1))], samples)
        for name in policies
    ]
    return ET.fromstring(render_picture(scenario, reports))


def test_each_policy_has_a_panel_with_its_figures() -> None:
    svg = drawn(SHORT, "all-spot", "floor-release")
    texts = [each.text or "" for each in svg.iter(f"{SVG}text")]
    assert "a <short> one" in texts
    assert [text for text in texts if text in BY_NAME] == ["all-spot", "floor-release"]
    (spot, release) = [text for text in texts if text.startswith("cost ")]
    assert "outage 0 s" in release
    assert "outage 0 s" not in spot


def test_everything_is_drawn_inside_the_picture() -> None:
    svg = drawn(replace(SHORT, duration=7200.0), "note-default", "floor-return")
    width, height = float(svg.attrib["width"]), float(svg.attrib["height"])
    for path in svg.iter(f"{SVG}path"):
        numbers = [float(each) for each in re.findall(r"-?\d+\.?\d*", re.sub(r"h16", "", path.attrib["d"]))]
        assert numbers
        assert all(0 <= number <= max(width, height) for number in numbers)
    for rect in svg.iter(f"{SVG}rect"):
        assert float(rect.attrib.get("x", 0)) + float(rect.attrib["width"]) <= width
        assert float(rect.attrib["width"]) >= 0


@pytest.mark.finding("N31")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_the_first_and_the_last_wave_are_shown_closer(scenario: SpotScenarioSettings) -> None:
    times = sample_times(scenario)
    assert times == sorted(set(times))
    assert (times[0], times[-1]) == (0.0, scenario.duration)
    waves = [event for event in scenario.events if event.wave is not None]
    *close, whole = columns(scenario)
    assert (whole.begin, whole.end, whole.mark) == (0.0, scenario.duration, "")
    assert len(close) == min(2, len(waves))
    for column, event in zip(close, (waves[0], waves[-1]) if waves else (), strict=False):
        assert column.begin < event.at < column.end
        assert sum(column.begin <= each <= column.end for each in times) > 240


@pytest.mark.parametrize(
    "scenario",
    [
        scenario_of("short", 300.0, wave(60.0)),
        scenario_of("calm", 7200.0, SpotEventSettings(at=60.0, roll_out=True)),
    ],
)
def test_what_is_short_or_has_no_wave_is_shown_once(scenario: SpotScenarioSettings) -> None:
    assert [each.title for each in columns(scenario)] == ["the whole time"]


@pytest.mark.finding("N31")
def test_columns_have_titles_and_axes_have_names() -> None:
    waves = (wave(60.0 + 600.0 * number, back_after=60.0) for number in range(3))
    svg = drawn(scenario_of("waves", 7200.0, *waves), "all-spot", "floor-release")
    texts = [each.text or "" for each in svg.iter(f"{SVG}text")]
    titles = ["a: the first of 3 waves", "b: the last of 3 waves", "the whole time"]
    assert [text for text in texts if text in titles] == titles
    assert texts.count("time since the start") == len(titles), "below each column"
    assert texts.count("pods") == 2, "beside each panel"
    assert texts.count("a") == texts.count("b") == 2, "where the waves are in the whole time"


@pytest.mark.finding("N31")
def test_what_means_different_things_has_different_colours() -> None:
    svg = ET.tostring(drawn(SHORT, "all-spot"), encoding="unicode")
    colours = dict(re.findall(r"\.(half|notice|gone|band) \{ fill: (#[0-9a-f]{6})", svg))
    hues = {
        name: colorsys.rgb_to_hsv(*(int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)))[0]
        for name, text in colours.items()
    }
    assert len(hues) == 4
    assert min(abs(one - other) for one, other in combinations(hues.values(), 2)) > 0.05, hues
