from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from situate.cli.main import app

EXAMPLE = Path(__file__).parents[2] / "examples" / "vpod-day.yaml"
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
    code, out, _ = simulate(str(EXAMPLE), "-o", "json")
    assert code == 0
    found = {each["variant"]: each for each in json.loads(out)}
    assert list(found) == ["spread", "pack", "zones", "knative"]
    assert found["pack"]["podHours"] <= found["spread"]["podHours"]
    assert found["zones"]["zoneShare"] < found["spread"]["zoneShare"] < found["pack"]["zoneShare"]
    assert found["knative"]["shortSeconds"] > 2 * found["spread"]["shortSeconds"]
    assert all(each["moves"]["loss"] > 0 for each in found.values())


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
    code, _, told = simulate(str(tmp_path))
    assert (code, "cannot be read" in told) == (2, True)
    code, _, told = simulate(str(small), "--plot", str(tmp_path / "none" / "x.svg"))
    assert (code, "cannot be written" in told) == (2, True)
    code, _, told = simulate(str(small), "--variant", "pak")
    assert (code, "did you mean pack?" in told) == (2, True)
