"""The guides of the scheduler, its tutorial and the README show what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from situate.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs" / "guides" / "scheduler"
TUTORIAL = ROOT / "docs" / "getting-started" / "tutorials" / "scheduler.md"
PAGES = [*(GUIDES / f"{name}.md" for name in ("explain", "what-if", "record-and-replay")), TUTORIAL]
README = (ROOT / "README.md").read_text(encoding="utf-8")
_SHOWN = re.compile(r"```(?:console)?\n\$ situate ([^\n]*)\n(.*?)\n```", re.DOTALL)
_FILES = ("--objects cluster.yaml", "replay morning.jsonl")
SHOWN = [
    (command, output)
    for page in PAGES
    for command, output in _SHOWN.findall(page.read_text(encoding="utf-8"))
    if any(file in command for file in _FILES)
]
"""What needs no cluster, only the files of the example."""


def test_the_pages_show_every_verb_that_needs_no_cluster() -> None:
    assert {command.split()[1] for command, _ in SHOWN} == {"status", "explain", "what-if", "replay"}


def test_the_readme_shows_one_of_them() -> None:
    (shown,) = _SHOWN.findall(README)
    assert shown in SHOWN


@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[command for command, _ in SHOWN])
def test_commands_print_what_the_page_shows(command: str, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "examples" / "scheduler")
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.stdout.rstrip() == output
