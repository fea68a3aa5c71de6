"""The tasks with which the names of the files are tried on newcomers: each points at a file that exists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
TASKS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("find_the_file.yaml").read_text(encoding="utf-8"))


def test_each_task_names_a_file_that_exists() -> None:
    assert [each["file"] for each in TASKS if not (ROOT / each["file"]).is_file()] == []


def test_there_are_twenty_tasks_about_twenty_files() -> None:
    assert len({each["task"] for each in TASKS}) == len({each["file"] for each in TASKS}) == 20
