"""Each import on the page of the Python API works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "python-api.md").read_text(encoding="utf-8")
IMPORTS = re.findall(r"^\| `(from situate[^`]+)` \|", PAGE, re.MULTILINE)


def test_each_row_is_an_import() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(rows) == len(IMPORTS) > 40


@pytest.mark.parametrize("statement", IMPORTS)
def test_the_import_works(statement: str) -> None:
    if "KopfHandler" in statement:
        pytest.importorskip("kopf")
    exec(statement, {})  # the page is ours
