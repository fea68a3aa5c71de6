"""What the pages claim is so: links lead somewhere, examples are valid, commands and settings exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest
import typer.main

from situate.cli.input.configuration import SECTIONS
from situate.cli.main import app
from situate.cli.verbs import ALIASES
from situate.runtime.configuration.file import parse_configuration
from situate.scheduler.config.settings import SchedulerSettings
from situate.vpod.config.settings import SourceSettings, StatefulSetSettings
from tests.rules.page import page
from tests.settings.page import files as settings_pages

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=ids)
def test_links_lead_to_files(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8"))
    missing = [target for target in targets if "://" not in target and not (path.parent / target).exists()]

    assert not missing


def anchors(path: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=ids)
def test_links_to_headings_find_them(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", path.read_text(encoding="utf-8"))
    within = [((path.parent / page if page else path), anchor) for page, anchor in links if "://" not in page]

    assert not [f"{page}#{anchor}" for page, anchor in within if anchor not in anchors(page)]


@pytest.mark.parametrize("path", PAGES, ids=ids)
def test_yaml_examples_of_the_configuration_are_valid(path: Path) -> None:
    for block in re.findall(r"```yaml\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
        if "kind: Situate" in block:
            _, mistakes = parse_configuration(block, SECTIONS)
            assert mistakes == ()


def test_every_configuration_of_the_examples_is_valid() -> None:
    files = [path for path in (ROOT / "examples").rglob("situate*.yaml") if "kind: Situate" in path.read_text()]
    assert files
    for path in files:
        assert parse_configuration(path.read_text(encoding="utf-8"), SECTIONS)[1] == ()


@pytest.mark.finding("N12")
def test_pages_of_settings_say_what_the_types_say() -> None:
    for file, text in settings_pages(ROOT):
        assert file.read_text(encoding="utf-8") == text, "run: python -m tests.settings"


@pytest.mark.finding("N12")
def test_every_setting_of_vpod_is_on_its_page() -> None:
    text = (ROOT / "docs" / "reference" / "vpod-settings.md").read_text(encoding="utf-8")
    names = [field.encode_name for field in msgspec.structs.fields(StatefulSetSettings)]
    names += [f"sources[].{field.encode_name}" for field in msgspec.structs.fields(SourceSettings)]

    assert not [name for name in names if f"| `{name}` |" not in text]
    assert "vpod-settings.md" in (ROOT / "docs" / "concepts" / "vpod.md").read_text(encoding="utf-8")


def test_every_setting_of_the_scheduler_is_on_its_page() -> None:
    text = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    names = [field.encode_name for field in msgspec.structs.fields(SchedulerSettings)]

    assert not [name for name in names if f"`{name}`" not in text]


@pytest.mark.parametrize("path", PAGES, ids=ids)
def test_commands_that_pages_name_exist(path: Path) -> None:
    group = typer.main.get_command(app)
    known = {*group.commands, *ALIASES}  # type: ignore[attr-defined]  # a group has commands
    # code only: in prose the word after the name is no command
    code = re.findall(r"`(?:[^`\n]*/)?situate ([^`\n]+)`", path.read_text(encoding="utf-8"))
    code += re.findall(
        r"^(?: {4}|\$ )(?:[^\n#]*[/|] *)?situate ([^\n]+)", path.read_text(encoding="utf-8"), re.MULTILINE
    )
    named = {command.split()[0] for command in code if not command.startswith("-")}

    assert {name for each in named for name in each.split("|")} <= known


def test_make_targets_that_pages_name_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    named = {
        name for path in PAGES for name in re.findall(r"(?:^ {4}|`)make ([a-z0-9-]+)", path.read_text(), re.MULTILINE)
    }

    assert named <= targets


def test_every_claim_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "contributing" / "proof.md").read_text(encoding="utf-8")
    head = {"| claim | tests |", "| --- | --- |"}  # of each table
    rows = [line for line in text.splitlines() if line.startswith("|") and line not in head]
    named = re.findall(r"`([a-z0-9_/]+\.py)(?:::(\w+))?`", text)
    missing = [
        f"{path}::{test}"
        for path, test in named
        if not (ROOT / "tests" / path).exists() or f"def {test}(" not in (ROOT / "tests" / path).read_text()
    ]

    assert rows
    assert missing == ["contract/exceptions.py::"]  # a file, not a test
    assert all("`" in row.rsplit("|", 2)[1] for row in rows)


def test_the_page_of_rules_says_what_the_marks_say() -> None:
    assert (ROOT / "docs" / "contributing" / "rules.md").read_text(encoding="utf-8") == page(ROOT), (
        "run: python -m tests.rules"
    )


def test_the_picture_shows_the_layers_of_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    named = [re.findall(r"[a-z]+", layer) for layer in layers]
    picture = (ROOT / "docs" / "contributing" / "architecture.svg").read_text(encoding="utf-8")
    boxes = re.findall(r'y="(\d+)"[^>]*font-weight="600"[^>]*>([a-z]+)<', picture)
    rows: dict[str, list[str]] = {}
    for height, name in boxes:
        rows.setdefault(height, []).append(name)

    assert [rows[height] for height in sorted(rows, key=int)] == named
