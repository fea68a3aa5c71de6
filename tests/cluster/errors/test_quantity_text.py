"""Quantities: the canonical text that the real server gives back, exact values, what is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.cluster.errors.quantity_text import MALFORMED, QuantityError, canonical_quantity, parse_amount

NUMBERS = st.from_regex(r"\A[+-]?(0|[1-9][0-9]{0,5})(\.[0-9]{1,3})?\Z")
SUFFIXES = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E2", "e-1"])


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1.5", "1500m"), ("0.5Gi", "512Mi"), ("1000", "1k"), ("1024", "1024"), ("0.1m", "100u"), ("1.5Ki", "1536"),
        ("3000m", "3"), ("0", "0"), ("-5", "-5"), ("12e6", "12e6"), ("1Gi", "1Gi"), ("2048Ki", "2Mi"), ("+1", "1"),
    ],
)  # fmt: skip
def test_canonical_text(text: str, want: str) -> None:
    assert canonical_quantity(text) == want


@given(NUMBERS, SUFFIXES)
def test_canonical_text_keeps_the_value_and_is_its_own_canonical_text(number: str, suffix: str) -> None:
    text = canonical_quantity(number + suffix)
    assert parse_amount(text) == parse_amount(number + suffix)
    assert canonical_quantity(text) == text


def test_amounts_are_exact_and_rounded_up_to_billionths() -> None:
    assert parse_amount("100m") == Fraction(1, 10)
    assert parse_amount("0.0000000001") == Fraction(1, 10**9)


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1Zi", ".", "--1", "1e", "0x1"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError):
        canonical_quantity(text)


def test_the_refusal_is_upstreams() -> None:
    with pytest.raises(QuantityError) as refused:
        parse_amount("abc")
    assert str(refused.value) == MALFORMED
