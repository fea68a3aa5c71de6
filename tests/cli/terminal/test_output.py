from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from situate.cli.terminal.formats import DataFormat, Format
from situate.cli.terminal.output import Column, print_data, print_objects, print_table
from tests.cli.terminal.pseudo_terminal import SITUATE, run_in_terminal

EXAMPLES = Path(__file__).parents[3] / "examples" / "knative"
STATUS = (
    "vpod",
    "status",
    "-f",
    str(EXAMPLES / "situate.yaml"),
    "--objects",
    str(EXAMPLES.with_name("vpod-cluster.yaml")),
)
COLUMNS = (Column("name"), Column("number", right=True), Column("more", wide=True))


def test_colours_are_for_terminals_only() -> None:
    seen = run_in_terminal(SITUATE, *STATUS)
    piped = subprocess.run([str(SITUATE), *STATUS], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "\x1b[1m" in seen
    assert "\x1b" not in piped
    assert [line.split() for line in piped.splitlines()][1][:3] == ["POD", "CLASS", "CAUSE"]


def test_a_narrow_terminal_cuts_nothing() -> None:
    seen = run_in_terminal("env", "COLUMNS=30", SITUATE, *STATUS, "-o", "wide").replace("\r\n", "")
    for text in ("kafka-source-dispatcher-1", "CAPACITY", "PLACED", "node-1", "shop/orders: 6"):
        assert text in seen


def test_a_table_is_as_wide_as_its_content(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [("a" * 300, 1, "x"), (None, 22, "y")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "NUMBER"]
    assert lines[1].split() == ["a" * 300, "1"]
    assert lines[2].rstrip().endswith(" 22")


def test_wide_shows_every_column(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [("a", 1, "x")], Format.WIDE)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["NAME", "NUMBER", "MORE"],
        ["a", "1", "x"],
    ]


@pytest.mark.parametrize("form", [Format.JSON, Format.YAML, DataFormat.JSON, DataFormat.YAML])
def test_data_comes_back_in_its_order(form: Format | DataFormat, capsys: pytest.CaptureFixture[str]) -> None:
    data = {"b": [1, {"z": "two\nlines", "a": None}], "a": "no"}
    print_data(data, form)
    back = yaml.safe_load(capsys.readouterr().out)  # JSON is YAML
    assert back == data
    assert list(back) == ["b", "a"]


@pytest.mark.parametrize("form", list(DataFormat))
def test_objects_are_documents_or_a_list(form: DataFormat, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [{"kind": "A"}, {"kind": "B"}]
    print_objects(objects, form)
    found = list(yaml.safe_load_all(capsys.readouterr().out))
    assert (found[0]["items"] if form is DataFormat.JSON else found) == objects
