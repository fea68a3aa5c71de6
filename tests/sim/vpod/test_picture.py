from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from situate.sim.vpod.picture import render_picture
from tests.sim.vpod.scenarios import reports, scenario

_SVG = "{http://www.w3.org/2000/svg}"


def drawn(**changed: object) -> ElementTree.Element:
    return ElementTree.fromstring(render_picture(scenario(**changed), list(reports(**changed).values())))


def paths(root: ElementTree.Element, kind: str) -> list[str]:
    return [each.get("d", "") for each in root.iter(f"{_SVG}path") if each.get("class") == kind]


def texts(root: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{_SVG}text")]


def test_each_variant_has_its_charts_and_its_numbers() -> None:
    root = drawn(variants={"one": {}, "two": {"policy": "pack"}}, title="<Black & white>")
    assert texts(root)[0] == "<Black & white>"
    assert {"one", "two"} <= set(texts(root))
    assert sum("pod-hours" in text for text in texts(root)) == 2
    assert len([path for path in paths(root, "running") if path]) == 2


def test_shortage_is_drawn_only_where_there_is_some() -> None:
    quiet = drawn(cluster={"zones": {"a": 1}, "podStartDelay": 0})
    assert paths(quiet, "short") == [""]
    late = drawn(cluster={"zones": {"a": 1}, "podStartDelay": "5m"})
    assert all(paths(late, "short"))


def test_events_are_marked_and_their_labels_do_not_cover_each_other() -> None:
    events = [
        {"at": "30m", "losePod": 0},
        {"at": "31m", "loseNode": "a-0", "for": "5m"},
        {"at": "2h", "failOver": True},
    ]
    root = drawn(events=events)
    labels = [each for each in root.iter(f"{_SVG}text") if each.get("class") == "event"]
    assert [each.text for each in labels] == ["lose pod 0", "lose node a-0"]
    assert labels[0].get("y") != labels[1].get("y")
    assert len([each for each in root.iter(f"{_SVG}rect") if each.get("class") == "band"]) == 1


def test_pending_pods_stay_within_their_chart() -> None:
    root = drawn(cluster={"zones": {"a": 1}, "podsPerNode": 1}, sources=[{"name": "s", "demand": 48}])
    (edge,) = paths(root, "edge")
    heights = [float(y) for y in re.findall(r"(?:M[\d.]+ |V)([\d.]+)", edge)]
    top_line = float(paths(root, "grid")[-1].split()[1].partition("H")[0])
    assert min(heights) >= top_line


def test_the_hours_stand_below_the_charts() -> None:
    assert {"0", "30m", "1h"} <= set(texts(drawn()))


@pytest.mark.finding("N31")
def test_axes_have_names_and_a_wait_has_not_the_colour_of_an_event() -> None:
    root = drawn(variants={"one": {}, "two": {"policy": "pack"}})
    named = texts(root)
    assert (named.count("vreplicas"), named.count("time since the start")) == (2, 1)
    style = next(root.iter(f"{_SVG}style")).text or ""
    band, pending = (re.search(rf"\.{kind} {{ fill: (#\w+)", style) for kind in ("band", "pending"))
    assert band is not None
    assert pending is not None
    assert (band[1], pending[1]) == ("#f59e0b", "#7c3aed")
