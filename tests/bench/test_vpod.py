"""`bench.vpod` on small inputs: every figure of section 14 has its row and key, and is what was measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from bench.vpod import LINES, REFERENCE, number, report
from bench.vpod_measured import Filled, Size, fill, kib_per_call, lost_pod, noop, one_beat, one_more_and_back, rebuild


@dataclass
class Ticking:
    """Goes on by as much at each reading: what takes long is what is read often meanwhile."""

    step: float
    now: float = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def smaller(row: dict[str, Any]) -> dict[str, Any]:
    """With the reference's figures, and room for everything."""
    vpods, vreplicas, pods = row["V"], max(1, row["R"] // 10), max(2, row["P"] // 25)
    if row.get("sweep") != "V" or vpods not in {50, 3200}:
        vpods = max(2, vpods // 10)
    small = {**row, "V": vpods, "R": vreplicas, "P": pods, "C": vpods * vreplicas // pods + vreplicas + 1}
    return {**small, "preloaded": min(row.get("preloaded", 0), vpods - 2), "calls": 2}


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    real: dict[str, Any] = json.loads(REFERENCE.read_text(encoding="utf-8"))
    policies = real["policy_mode_v0_43_0"]
    for rows in (real["results"], real["sweeps"], policies["results"], policies["maxfillup_affinity_results"]):
        rows[:] = map(smaller, rows)
    return real


def named(row: dict[str, Any]) -> str:
    return f"{row['V']}x{row['R']}x{row['P']}"


def test_every_figure_of_the_reference_has_its_row_and_key(
    reference: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    step = 0.5
    found = report(reference, Ticking(step), runs=1)
    sections = capsys.readouterr().out.split("\n\n")
    plain, logged = ([row for row in reference["results"] if row["log"] == log] for log in ("nop", "info"))
    with_logs = {named(row): row for row in logged}
    assert len(plain) == 3
    assert len(logged) == 2
    for section, row in zip(sections[1:], plain, strict=False):
        shown = section.splitlines()
        for line, text in zip(LINES, shown[2:], strict=False):
            assert text.startswith(line.what)
            theirs = [number(line.theirs(row))]
            if named(row) in with_logs:
                theirs.append(number(line.theirs(with_logs[named(row)])))
            ours = number(found[line.key][named(row)] * line.shown)
            cells = text.removeprefix(line.what).split()
            assert cells[0] == ours
            assert cells[1::2][: len(theirs)] == [each for each in theirs if each]
    assert all(found[line.key].keys() == {named(row) for row in plain} for line in LINES)
    assert found["fill_s"] == {named(row): (2 * row["V"] + 1) * step for row in plain}
    for key in ("call_us", "first_us", "last_us", "noop_us", "plus1_us", "minus1_us", "beat_us"):
        assert set(found[key].values()) == {step * 1e6}
    assert set(found["rebuild_s"].values()) == set(found["lost_pod_s"].values()) == {step}

    sweeps = {varied: [row for row in reference["sweeps"] if row["sweep"] == varied] for varied in ("V", "P", "R")}
    assert found["sweep_s"] == {
        varied: {named(row): (2 * row["V"] + 1) * step for row in rows} for varied, rows in sweeps.items()
    }
    grown = found["growth_50_to_3200"]
    assert grown == pytest.approx((2 * 3200 + 1) / (2 * 50 + 1) / 64)
    assert sections[4].endswith(f"V from 50 to 3200: {number(grown)} x linear; reference 39.4 x; aim 1.3 x")
    policies = reference["policy_mode_v0_43_0"]
    filled_up = policies["maxfillup_affinity_results"]
    assert found["policy_call_s"] == {named(row): step for row in policies["results"]}
    assert found["maxfillup_s"] == {named(row): (2 * row["V"] + 1) * step for row in filled_up}
    assert found["maxfillup_call_us"] == {named(row): step * 1e6 for row in filled_up}
    for section, rows in zip(sections[4:], (*sweeps.values(), policies["results"], filled_up), strict=True):
        told = [line.split() for line in section.splitlines()[2 : 2 + len(rows)]]
        assert [cells[0] for cells in told] == [named(row) for row in rows]
        in_ms = [row["call_us"]["median"] / 1e3 if rows is policies["results"] else row["total_ms"] for row in rows]
        assert [cells[2] for cells in told] == [number(each) for each in in_ms]


def probed(filled: Filled, value: Callable[[Filled], float]) -> tuple[Filled, list[float]]:
    """Each reading of the clock notes a value, by which one sees what happened between two of them."""
    readings: list[float] = []

    def clock() -> float:
        readings.append(value(filled))
        return float(len(readings))

    return replace(filled, clock=clock), readings


def reserved(filled: Filled) -> float:
    return sum(entry.reserved_total for entry in filled.state.vpods.values())


def changes(readings: list[float]) -> list[float]:
    return [after - before for before, after in zip(readings[::2], readings[1::2], strict=True)]


def test_what_is_timed_is_what_it_is_called() -> None:
    size = Size(30, 4, 10, 20)
    filled, readings = probed(fill(Ticking(1.0), size), reserved)
    noop(filled)
    assert changes(readings) == [0] * 21
    readings.clear()
    one_more_and_back(filled)
    assert changes(readings) == [1, -1] * 21
    readings.clear()
    version = filled.state.version
    one_beat(filled)
    rebuild(filled)
    assert changes(readings) == [0] * 22
    assert filled.state.version == version, "neither changes anything"
    highest = max(filled.state.slots.values(), key=lambda slot: slot.committed).name
    on_it, moved = probed(filled, lambda each: sum(p.pod_name == highest for v in each.vpods for p in v.placements))
    lost_pod(on_it)
    assert changes(moved) == [-moved[0]]
    assert moved[0] > 0
    assert reserved(filled) == 120


def test_a_fill_tells_its_first_and_last_calls() -> None:
    filled = fill(Ticking(1.0), Size(1, 1, 1, 1))
    filled = replace(filled, calls=[1.0, 1.0, *([2.0] * 37), 7.0, 9.0])
    assert (filled.first, filled.call, filled.last) == (1.0, 2.0, 8.0)


def test_memory_is_measured() -> None:
    few, many = (kib_per_call(Size(10, vreplicas, 60, 20)) for vreplicas in (1, 60))
    assert 0 < 2 * few < many
