"""The number and the form of a noun."""

from __future__ import annotations

import pytest

from situate.objects.values.counts import format_count


@pytest.mark.finding("N9")
@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes"), (-1, "-1 nodes"), (1000, "1000 nodes")]
)
def test_a_noun_is_singular_after_one_alone(number: int, text: str) -> None:
    assert format_count(number, "node") == text


def test_a_plural_may_be_irregular() -> None:
    assert [format_count(number, "entry", "entries") for number in (1, 2)] == ["1 entry", "2 entries"]
