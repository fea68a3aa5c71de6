"""The page's example of keeping, copying and checking does what it says."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from situate.archive.records.record import record_of
from situate.archive.stores.folder.archiver import FilesystemArchiver
from tests.archive.reports import report

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "sharding" / "archive.md"


def test_the_example_copies_checks_and_deletes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```python\n((?:(?!```).)*async def care.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    found: dict[str, Any] = {}
    exec(compile(block, "docs/guides/sharding/archive.md", "exec"), found)
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    now = datetime.now(UTC)

    async def play() -> None:
        archiver = FilesystemArchiver(old)
        for name, days in (("fresh", 1), ("stale", 91)):
            then = now - timedelta(days=days)
            await archiver.put(
                record_of(
                    report(name),
                    resource="reports",
                    completed_at=then,
                    successful=True,
                    reason="",
                    archived_at=then,
                    term=1,
                )
            )
        await archiver.close()
        for _ in range(2):
            await found["care"](f"file://{old}", f"file://{new}")

    asyncio.run(play())
    once = [
        "copied {} there already {} not copied 0",
        "whole 2 bad []",
        "over: Report.batch.example.com ns1/stale with UID uid-ns1-stale after 90 days, 0:00:00",
        "deleted 1",
    ]
    assert capsys.readouterr().out.splitlines() == [
        *[once[0].format(2, 0), *once[1:]],
        *[once[0].format(1, 1), *once[1:]],  # what retention took is copied again while the old archive has it
    ]
