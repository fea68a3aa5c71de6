"""The files of the page about tests of one's own, run by pytest as their reader would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (_GUIDES / page).read_text(encoding="utf-8"), re.DOTALL)


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    conftest, *tests = blocks("test-with-situate.md")
    (plugin,) = blocks("scheduler/write-a-plugin.md")
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_thrifty.py").write_text("\n\n".join(tests))
    (tmp_path / "thrifty.py").write_text(plugin)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout
    assert "6 passed" in told.stdout
