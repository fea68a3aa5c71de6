"""The pages on archives: the first example prints what it says, and the page's store passes every test of stores."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from situate.archive import ArchiveError, Archiver, Record
from tests.archive import test_stores
from tests.archive.store_fixtures import Store, edited

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "guides" / "sharding" / "archive.md").read_text(encoding="utf-8")
FORMAT = (DOCS / "reference" / "archive-format.md").read_text(encoding="utf-8")


def example(word: str) -> dict[str, Any]:
    """What the block of code that holds this word defines."""
    (block,) = (block for block in re.findall(r"```python\n(.*?)```", PAGE + FORMAT, re.DOTALL) if word in block)
    found: dict[str, Any] = {}
    exec(compile(block, "the pages on archives", "exec"), found)
    return found


class Example:
    """The store of the page."""

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}
        self.type = example("class MappingArchiver")["MappingArchiver"]

    def archiver(self) -> Archiver:
        archiver: Archiver = self.type(self.records)
        return archiver

    async def edit(self, record: Record) -> None:
        self.records[self.type.key(record.subject.key)] = edited(record)

    async def spoil(self, record: Record) -> None:
        self.records[self.type.key(record.subject.key)] = b"\0\0\0"


@pytest.fixture
def store() -> Store:
    """In place of the stores that the suite runs on elsewhere."""
    return Example()


pytestmark = test_stores.pytestmark
globals().update({name: test for name, test in vars(test_stores).items() if name.startswith("test_")})


def test_the_first_example_prints_what_the_page_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(example("async def main")["main"](f"file://{tmp_path}"))
    assert f"```\n\n```text\n{capsys.readouterr().out}```\n" in PAGE


def test_every_error_is_in_its_table() -> None:
    table = FORMAT[FORMAT.index("| error |") :].partition("\n\n")[0]
    assert [error.__name__ for error in _below(ArchiveError) if f"`{error.__name__}`" not in table] == []


def _below(error: type[ArchiveError]) -> list[type[ArchiveError]]:
    return [each for sub in error.__subclasses__() for each in (sub, *_below(sub))]
