from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from msgspec.structs import fields
from typer.testing import CliRunner

from situate.cli.main import app
from situate.cli.simulate.spot import BUILT_IN
from situate.sim.spot.baselines import BASELINES, WaveFigures, deviating_figures
from situate.sim.spot.policies import BY_NAME
from situate.sim.spot.settings import (
    SpotClusterSettings,
    SpotEventSettings,
    SpotScenarioSettings,
    SpotSection,
    WaveSettings,
    WorkloadSettings,
)

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "spot-wave.yaml"
PAGE = ROOT / "docs" / "guides" / "spot" / "simulate.md"
SMALL = """
duration: 10m
runs: 3
workloads: [{name: web, replicas: 4, floor: "1"}]
spot: {policies: [note-default, floor-release]}
events: [{at: 1m, wave: {notice: 2m}}]
"""


def simulate(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["simulate", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def small(tmp_path: Path) -> Path:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    return file


@pytest.mark.rule("spot:B33")
def test_policies_stand_side_by_side(small: Path) -> None:
    code, out, _ = simulate(str(small))
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "spot: 10m, 3 runs of each policy, seed 0"
    assert " ".join(lines[1].split()) == "POLICY COST OUTAGE-S HALF-S SHORT-POD-S LEAST-READY RESTARTS"
    assert [line.split()[0] for line in lines[2:]] == ["note-default", "floor-release"]
    outages = [float(line.split()[2]) for line in lines[2:]]
    assert outages[0] > 5 > outages[1] == 0
    assert max(map(len, lines)) <= 90


def test_wide_and_json_tell_how_figures_vary(small: Path) -> None:
    _, out, _ = simulate(str(small), "-o", "wide", "--variant", "note-default")
    assert "OUTAGE P50/P95/MAX" in out
    assert "drained 4.0" in out
    _, out, _ = simulate(str(small), "-o", "json")
    default, release = json.loads(out)
    outage = default["outageSeconds"]
    assert outage["least"] <= outage["p50"] <= outage["p95"] <= outage["most"]
    assert default["workloads"]["web"]["outageSeconds"] == outage
    assert release["leastReady"]["mean"] > default["leastReady"]["mean"] == 0
    assert len(release["series"]["time"]) == len(release["series"]["ready"]["middle"])


def test_equal_seeds_give_equal_results(small: Path) -> None:
    first, second, other = (simulate(str(small), "-o", "json", "--seed", seed)[1] for seed in ("5", "5", "6"))
    assert first == second
    assert first != other


def test_fewer_runs_and_policies_may_be_asked_for(small: Path) -> None:
    _, out, _ = simulate(str(small), "--runs", "2", "--variant", "floor-release")
    assert out.splitlines()[0] == "spot: 10m, 2 runs of each policy, seed 0"
    assert "note-default" not in out


def test_a_scenario_may_be_called_by_its_name() -> None:
    code, out, _ = simulate("no-notice", "--runs", "1", "--variant", "all-on-demand")
    assert code == 0
    assert out.startswith("no-notice: 1h, 1 run of each policy, seed 0")


@pytest.mark.rule("spot:B33")
def test_the_baselines_stand_beside_the_reference() -> None:
    code, out, _ = simulate("baselines", "--runs", "1", "-o", "json")
    assert code == 0
    lines = json.loads(out)
    assert [line["wave"] for line in lines] == [each.name for each in BASELINES]
    assert {line["runs"] for line in lines} == {1}
    assert all(set(line["figures"]) == set(line["reference"]) for line in lines)
    code, out, _ = simulate("baselines", "--runs", "1")
    assert code == 0
    assert "differences of more than a tenth, 5 s or half a replica: " in out


def test_a_picture(small: Path, tmp_path: Path) -> None:
    file = tmp_path / "small.svg"
    code, out, _ = simulate(str(small), "--plot", str(file))
    assert code == 0
    assert f"drawn: {file}" in out
    texts = [each.text for each in ET.parse(file).iter("{http://www.w3.org/2000/svg}text")]
    assert {"note-default", "floor-release"} <= set(texts)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param(("note-default", "note-defalt"), "did you mean note-default?", id="a policy that is misspelt"),
        pytest.param(("notice: 2m", "notice: -1s"), "events[0].wave.notice", id="a negative notice"),
        pytest.param(('floor: "1"', "floor: many"), "workloads[0].floor", id="a floor that is no policy"),
        pytest.param(
            ("wave: {notice: 2m}", "scale: 2, rollOut: true"), "exactly one for each event", id="two things at once"
        ),
        pytest.param(("at: 1m", "at: 11m"), "events[0].at", id="an event after the end"),
        pytest.param(("replicas: 4", "replicas: 0"), "1 to 500 in all", id="no pods at all"),
        pytest.param(("runs: 3", "rums: 3"), "did you mean runs?", id="an unknown key"),
        pytest.param(("duration: 10m", ""), "duration: missing", id="a missing key"),
    ],
)
def test_a_wrong_scenario_is_told_and_is_exit_code_2(tmp_path: Path, changed: tuple[str, str], expected: str) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(SMALL.replace(*changed))
    code, _, told = simulate(str(file))
    assert (code, expected in told, "Traceback" in told) == (2, True, False), told


def test_options_that_mean_nothing_are_refused(tmp_path: Path, small: Path) -> None:
    vpod = tmp_path / "vpod.yaml"
    vpod.write_text("{duration: 1m, cluster: {zones: {a: 1}}, vpod: {}, sources: [{name: a, demand: 1}]}")
    for arguments, expected in (
        ((str(vpod), "--runs", "3"), f"--runs 3: {vpod} has no spot section"),
        (("baselines", "--plot", str(tmp_path / "x.svg")), "leave the option out"),
        (("full-weve",), "did you mean full-wave?"),
        ((str(small), "--variant", "floor"), "--variant: found floor, allowed: "),
        ((str(small), "--plot", str(tmp_path / "none" / "x.svg")), "cannot be written"),
    ):
        code, _, told = simulate(*arguments)
        assert (code, expected in told) == (2, True), told


def test_every_key_policy_and_scenario_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    kinds = (SpotScenarioSettings, SpotClusterSettings, SpotSection, WorkloadSettings, WaveSettings, SpotEventSettings)
    names = {field.encode_name for kind in kinds for field in fields(kind)}
    assert [name for name in sorted({*names, *BY_NAME, *BUILT_IN}) if not re.search(rf"\b{name}\b", text)] == []


def test_the_scenario_of_the_page_can_be_played(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "page.yaml"
    file.write_text(text)
    code, out, _ = simulate(str(file), "-o", "json", "--runs", "2")
    assert code == 0
    assert all(each["runs"] == 2 for each in json.loads(out))


def test_the_table_of_the_page_is_what_the_command_shows() -> None:
    (table,) = re.findall(r"```console\n\$ situate simulate full-wave.*?\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    shown = rows(table)
    for policy in ("note-default", "floor-evict", "floor-release"):
        code, out, _ = simulate("full-wave", "--variant", policy, "--runs", "4")
        assert code == 0
        have, want = rows(out)[policy], shown[policy]
        assert have["cost"] == pytest.approx(want["cost"], abs=0.03)
        assert have["outage"] == pytest.approx(want["outage"], abs=8)
        assert have["short"] == pytest.approx(want["short"], rel=0.25, abs=30)
        assert have["least"] == pytest.approx(want["least"], abs=0.6)


def test_the_baselines_of_the_page_are_those_of_the_command() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for line in BASELINES:
        said = line.reference
        (row,) = [each for each in text.splitlines() if each.startswith(f"| {line.name} |")]
        brackets = [float(each) for each in re.findall(r"\(([\d.]+)\)", row)]
        figures = [float(each) for each in re.findall(r"([\d.]+) \(", row)]
        assert brackets == [said.outage_s, said.half_s, said.pod_s_short, said.least_ready]
        assert not deviating_figures(WaveFigures(said.cost, *figures), said)


def rows(table: str) -> dict[str, dict[str, float]]:
    names = ("cost", "outage", "half", "short", "least", "restarts")
    found = [line.split() for line in table.splitlines() if line.split() and line.split()[0] in BY_NAME]
    return {row[0]: dict(zip(names, map(float, row[1:7]), strict=True)) for row in found}


def test_the_example_can_be_played() -> None:
    code, out, _ = simulate(str(EXAMPLE), "--runs", "1")
    assert code == 0
    found = rows(out)
    assert found["floor-release"]["outage"] == 0 < found["note-default"]["outage"]
    assert found["floor-return"]["cost"] < found["floor-release"]["cost"]
