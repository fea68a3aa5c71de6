"""The system itself lets no more be written, in the midst of a record: none is there in part, and what was stays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.rule("sharding:B9")
@pytest.mark.parametrize(
    ("url", "error"),
    [
        pytest.param("file://{}/archive", "ArchiveTooLarge", id="filesystem"),
        pytest.param("sqlite:///{}/archive/a.db", "ArchiveUnavailable", id="sqlite"),
    ],
)
def test_a_limit_of_the_system_leaves_no_part_of_a_record(tmp_path: Path, url: str, error: str) -> None:
    folder = tmp_path / "archive"
    folder.mkdir()
    command = (sys.executable, "-m", "tests.archive.limited_writer", url.format(tmp_path))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["small"] == "stored"
    assert told["large"][0] == error, told
    assert (told["found"], told["unreadable"]) == (["small"], 0)
    assert told["then"] == ["large", "small"], "with room it goes"
    if error == "ArchiveTooLarge":
        assert not [*(folder / ".partial").iterdir()]
