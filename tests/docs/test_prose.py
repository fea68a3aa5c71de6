"""The limits of writing: pages, docstrings and the texts of the program stay plain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import prose
from tests.docs.prose import Measured

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "situate"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
PACKAGES = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
FEW = 10
"""A page with fewer sentences may hold one vague clause."""
RULE_CODES = re.compile(r"\b(vpod|vm|spot|sharding|framework):[A-Z]\d+\b|\([A-Z]\d{1,2}\)")
FOR_CONTRIBUTORS = ("contributing", "decisions", "spec")


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=ids)
def test_a_page_has_few_vague_clauses_and_few_long_sentences(path: Path) -> None:
    found = prose.page(path)
    assert found.clauses <= 5 or (found.sentences < FEW and found.vague <= 1), found
    assert found.long_part <= 6 or (found.sentences < FEW and found.long <= 1), found


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_are_plain(package: str) -> None:
    total = sum((prose.docstrings(path) for path in (SOURCE / package).rglob("*.py")), Measured())
    assert total.clauses <= 5, total
    assert total.long_part <= 3, total


@pytest.mark.parametrize("package", PACKAGES)
def test_help_errors_and_events_are_plain(package: str) -> None:
    total = sum((prose.texts(path) for path in (SOURCE / package).rglob("*.py")), Measured())
    assert total.clauses <= 5, total
    assert total.long_part <= 3, total


@pytest.mark.parametrize("path", PAGES, ids=ids)
def test_pages_for_users_have_no_rule_codes(path: Path) -> None:
    if path.parent.name not in FOR_CONTRIBUTORS:
        assert not RULE_CODES.findall(path.read_text(encoding="utf-8"))


def test_vague_clauses_and_long_sentences_are_counted() -> None:
    text = "What is written is kept. The leader writes the status.\n\n" + "word " * 31 + "end."
    assert prose.measured(text) == Measured(3, 1, 1)
