from __future__ import annotations

import pytest

from situate.objects.values.booleans import parse_bool


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_true(text: str) -> None:
    assert parse_bool(text) is True


@pytest.mark.parametrize("text", ["0", "f", "F", "FALSE", "false", "False"])
def test_false(text: str) -> None:
    assert parse_bool(text) is False


@pytest.mark.parametrize("text", [None, "", "yes", "tRUE", " true", "true\n", "2", "nil"])
def test_anything_else_is_neither(text: str | None) -> None:
    assert parse_bool(text) is None
