from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import fields
from typer.testing import CliRunner

from situate.cli.main import app
from situate.sim.vpod.settings import (
    BurstSettings,
    DemandSettings,
    FleetSettings,
    ScenarioSettings,
    SineSettings,
    SourceSettings,
    VPodEventSettings,
    WalkSettings,
)

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "vpod-day.yaml"
PAGE = ROOT / "docs" / "guides" / "vpod" / "simulate.md"
SMALL = """
duration: 10m
cluster: {zones: {a: 1}}
vpod: {podCapacity: 6}
variants: {spread: {}, pack: {policy: pack}}
sources: [{name: orders, demand: 12}]
"""


def simulate(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["simulate", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def small(tmp_path: Path) -> Path:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    return file


def test_the_example_shows_what_its_faults_cost_each_variant() -> None:
    code, out, _ = simulate(str(EXAMPLE))
    assert code == 0
    pod_hours, ran, skew = figures(out)
    assert list(pod_hours) == ["spread", "pack", "zones", "knative"]
    assert pod_hours["pack"] <= pod_hours["spread"]
    assert ran["knative"] < ran["spread"] - 1
    assert skew["zones"] < skew["spread"] < skew["pack"]
    on_page = figures(re.findall(r"```console\n\$ situate simulate .*?\n(.*?)```", PAGE.read_text(), re.DOTALL)[0])
    assert on_page[0] == pytest.approx(pod_hours, rel=0.02)
    assert on_page[1] == pytest.approx(ran, abs=0.3)


def figures(table: str) -> list[dict[str, float]]:
    """Pod-hours, what ran in percent, and skew, each by variant."""
    rows = [line.split() for line in table.splitlines()[2:6]]
    return [{row[0]: float(row[column].strip("%")) for row in rows} for column in (1, 6, 8)]


def test_the_scenario_of_the_page_can_be_played(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "page.yaml"
    file.write_text(text)
    code, out, _ = simulate(str(file), "-o", "json")
    assert code == 0
    found = {each["variant"]: each for each in json.loads(out)}
    assert list(found) == ["now", "zones", "knative"]
    assert found["zones"]["zoneShare"] < found["now"]["zoneShare"]
    assert all(each["moves"]["loss"] > 0 and len(each["series"]["time"]) == 720 for each in found.values())


def test_every_key_of_a_scenario_is_on_its_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    kinds = (ScenarioSettings, FleetSettings, SourceSettings, DemandSettings, SineSettings, BurstSettings)
    names = {field.encode_name for kind in (*kinds, WalkSettings, VPodEventSettings) for field in fields(kind)}
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", text)] == []


def test_a_table_for_people(small: Path) -> None:
    code, out, _ = simulate(str(small))
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "small.yaml: 10m, seed 0"
    titles = "VARIANT POD-HOURS COST USED PEAK MOVES RAN LONGEST SKEW"
    assert " ".join(lines[1].split()) == titles
    assert [line.split()[0] for line in lines[2:]] == ["spread", "pack"]
    assert max(map(len, lines)) <= 80


def test_wide_says_whom_it_concerned(small: Path) -> None:
    _, out, _ = simulate(str(small), "-o", "wide")
    assert "default/orders at 0" in out


def test_only_the_variants_that_are_asked_for(small: Path) -> None:
    _, out, _ = simulate(str(small), "--variant", "pack", "-o", "yaml")
    assert "variant: pack" in out
    assert "variant: spread" not in out


def test_a_picture(small: Path, tmp_path: Path) -> None:
    code, out, _ = simulate(str(small), "--plot", str(tmp_path / "small.svg"))
    assert code == 0
    assert "drawn: " in out
    assert (tmp_path / "small.svg").read_text().startswith("<svg ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "found null, allowed: a mapping", id="empty"),
        pytest.param("a: [", "line 1", id="no YAML"),
        pytest.param(SMALL.replace("pack}", "pac}"), 'variants.pack.policy: found "pac"', id="a wrong setting"),
        pytest.param(SMALL.replace("duration: 10m", ""), "duration: missing", id="a missing key"),
    ],
)
def test_a_wrong_scenario_is_told_and_is_exit_code_2(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    code, _, told = simulate(str(file))
    assert code == 2
    assert expected in told
    assert "Traceback" not in told


def test_files_that_cannot_be_used_are_told(small: Path, tmp_path: Path) -> None:
    code, _, told = simulate(str(tmp_path / "none.yaml"))
    assert (code, "no such file" in told) == (2, True)
    assert all(name in told for name in ("half-wave", "vm-burst", "vm-node-loss")), "what there is without a file"
    code, _, told = simulate(str(tmp_path))
    assert (code, "cannot be read" in told) == (2, True)
    code, _, told = simulate(str(small), "--plot", str(tmp_path / "none" / "x.svg"))
    assert (code, "cannot be written" in told) == (2, True)
    code, _, told = simulate(str(small), "--variant", "pak")
    assert (code, "did you mean pack?" in told) == (2, True)


@pytest.mark.finding("N8")
@pytest.mark.parametrize("scenario", ["small", "full-wave"])
@pytest.mark.parametrize(("name", "found"), [("x.png", ".png"), ("x", "no suffix")])
def test_a_picture_that_is_no_svg_is_refused_before_anything_is_played(
    small: Path, tmp_path: Path, scenario: str, name: str, found: str
) -> None:
    file = tmp_path / name
    code, out, told = simulate(str(small) if scenario == "small" else scenario, "--plot", str(file))
    assert (code, out) == (2, "")
    assert told == f"situate: --plot {file}: found {found}, allowed: a file name that ends in .svg\n"
    assert not file.exists()
