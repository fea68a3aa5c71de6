from __future__ import annotations

import os
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests import bytecode


def test_pytest_takes_what_was_made_of_a_test(tmp_path: Path) -> None:
    path = tmp_path / "test_sums.py"
    path.write_text("def test_sum() -> None:\n    two = 1 + 1\n    assert two == 3\n")
    assert bytecode.make_one(path)
    [made] = (tmp_path / "__pycache__").iterdir()
    code = rewrite._read_pyc(path, made)  # how pytest itself looks for it
    assert code is not None
    assert made == rewrite.get_cache_dir(path) / ("test_sums" + rewrite.PYC_TAIL), "where pytest looks"
    names = {"__name__": "test_sums"}
    exec(code, names)  # what was written above
    with pytest.raises(AssertionError, match="2 == 3"):
        names["test_sum"]()  # type: ignore[operator]


def test_what_is_made_is_not_made_again_until_its_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "sums.py"
    path.write_text("two = 1 + 1\n")
    assert not bytecode.is_made(path)
    assert bytecode.make_one(path)
    assert bytecode.is_made(path)
    os.utime(path, (1, 1))
    assert not bytecode.is_made(path)


def test_what_is_no_python_is_left_to_whoever_imports_it(tmp_path: Path) -> None:
    path = tmp_path / "test_sums.py"
    path.write_text("two = = 2\n")
    assert not bytecode.make_one(path)
    assert not bytecode.is_made(path)
