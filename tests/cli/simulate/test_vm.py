"""`situate simulate` of virtual machines: a trace or a load by its name, with the reference's rules and with ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from situate.cli.main import app
from situate.cli.simulate.vm import built_in_trace

TRACE = """\
{"time":0,"event":"node-added","uid":"n1","allocatable":{"cpu":"8","memory":"32Gi"}}
{"time":0,"event":"node-added","uid":"n2","allocatable":{"cpu":"8","memory":"32Gi"}}
{"time":0,"event":"pod-added","uid":"a","node":"n1","resources":{"cpu":"2","memory":"8Gi"},\
"bounds":{"min":{"cpu":"1","memory":"4Gi"},"max":{"cpu":"8","memory":"32Gi"}}}
{"time":0,"event":"pod-added","uid":"b","node":"n1","resources":{"cpu":"4","memory":"16Gi"},\
"bounds":{"min":{"cpu":"1","memory":"4Gi"},"max":{"cpu":"8","memory":"32Gi"}}}
{"time":0,"event":"pod-added","uid":"plain","resources":{"cpu":"1","memory":"4Gi"},"affinity":{"disk":"fast"}}
{"time":60,"event":"pod-changed","uid":"a","resources":{"cpu":"6","memory":"24Gi"}}
{"time":90,"event":"pod-deleted","uid":"b"}
"""


def simulate(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["simulate", *arguments])
    return result.exit_code, result.output


@pytest.mark.rule("vm:B42")
def test_a_trace_is_played_with_both_rules(tmp_path: Path) -> None:
    file = tmp_path / "load.jsonl"
    file.write_text(TRACE)
    code, output = simulate(str(file), "-o", "json")
    assert code == 0, output
    found = json.loads(output)
    assert [each["variant"] for each in found] == ["compat", "default"]
    assert all(each["wishes"] == each["wishes_granted"] == each["moves"] == 1 for each in found)
    code, output = simulate(str(file), "--variant", "default")
    assert code == 0
    assert "load.jsonl: " in output
    assert "compat" not in output


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        pytest.param('{"time":0,"event":"node-add","uid":"n"}', (), "did you mean node-added?", id="an unknown event"),
        pytest.param(TRACE, ("--variant", "compt"), "did you mean compat?", id="an unknown variant"),
        pytest.param(TRACE, ("--runs", "2"), "leave the option out", id="runs"),
        pytest.param(TRACE, ("--seed", "2"), "leave the option out", id="a seed of a trace"),
        pytest.param(None, (), "cannot be read", id="no file"),
    ],
)
def test_what_cannot_be_played_says_why(tmp_path: Path, text: str | None, options: tuple[str, ...], says: str) -> None:
    file = tmp_path / "load.jsonl"
    if text is not None:
        file.write_text(text)
    code, output = simulate(str(file), *options)
    assert code != 0
    assert says in " ".join(output.split())


def test_what_is_no_text_or_no_file_says_where(tmp_path: Path) -> None:
    file = tmp_path / "load.jsonl"
    file.write_bytes(TRACE.encode() + b'{"time":\xff}\n')
    code, output = simulate(str(file))
    assert code != 0
    assert f"line {TRACE.count(chr(10)) + 1} is not UTF-8" in " ".join(output.split())
    folder = tmp_path / "folder.jsonl"
    folder.mkdir()
    code, output = simulate(str(folder))
    assert code != 0
    assert "Is a directory" in " ".join(output.split())
    assert "Errno" not in output


def test_equal_seeds_are_played_alike_and_others_are_not() -> None:
    assert built_in_trace("vm-burst", 4) == built_in_trace("vm-burst", 4) != built_in_trace("vm-burst", 5)
