from __future__ import annotations

import pickle
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.objects.values.quantity import BadQuantity, Quantity, decode_quantity, parse_quantity

SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1), "k": Fraction(10**3),
    "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "milli", "value"),
    [
        ("0", 0, 0),
        ("500m", 500, 1),
        ("1", 1000, 1),
        ("1.5", 1500, 2),
        (".5", 500, 1),
        ("5.", 5000, 5),
        ("100n", 1, 1),
        ("-1500m", -1500, -2),
        ("+2", 2000, 2),
        ("1Ki", 1024000, 1024),
        ("1.5Gi", 1610612736000, 1610612736),
        ("0.1Ki", 102400, 103),
        ("1e3", 1000000, 1000),
        ("1E3", 1000000, 1000),
        ("1E", 10**21, 10**18),
        ("12e-1", 1200, 2),
        pytest.param("0.1n", 1, 1, id="what is finer than a billionth counts as one"),
        pytest.param("1e-150", 1, 1, id="so does what is much finer"),
        pytest.param("9Ei", (2**63 - 1) * 1000, 2**63 - 1, id="binary amounts are cut at 2^63-1"),
    ],
)
def test_parse(text: str, milli: int, value: int) -> None:
    quantity = parse_quantity(text)
    assert (quantity.milli_value, quantity.value) == (milli, value)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", " 1", "1 ", "1\n", "+", "-", ".", "k", "Ki", "1.1.M", "1+1.0M", "0.1mi", "0.1am", "aoeu", ".5i", "1i",
        "-3.01i", "-3.01e-", "1e", "1ee3", "1e1000000000", "--1", "0x10", "1_000", "١", "1" * 300, "inf", "nan",
    ],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(BadQuantity, match=r"is not a quantity; write a number, with a suffix"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1000m", "1"),
        ("1024Ki", "1Mi"),
        ("1025Ki", "1025Ki"),
        ("0.5Gi", "512Mi"),
        ("1.5", "1500m"),
        ("1500M", "1500M"),
        ("3000M", "3G"),
        ("12e6", "12e6"),
        ("12000e3", "12e6"),
        ("1.2e3", "1200"),
        pytest.param("512", "512", id="small amounts stay decimal"),
        pytest.param("0.5Ki", "512", id="below 1024 binary amounts are decimal"),
        pytest.param("1100.5Ki", "1126912", id="a binary amount that is whole but no multiple of 1024"),
        pytest.param("1.0001Ki", "1024102400u", id="a binary amount with a fraction is decimal"),
        pytest.param("1e21", "1e21", id="beyond E in exponents"),
        pytest.param("1000E", "1000E", id="beyond E with the largest suffix"),
        ("-1536Mi", "-1536Mi"),
        ("0Ki", "0"),
    ],
)
def test_canonical(text: str, canonical: str) -> None:
    assert str(parse_quantity(text)) == canonical


numbers = st.builds(
    lambda sign, whole, fraction: f"{sign}{whole}{fraction}",
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 10**12).map(str),
    st.one_of(st.just(""), st.integers(0, 10**6).map(lambda digits: f".{digits}")),
)


@given(numbers, st.sampled_from(sorted(SUFFIXES)))
def test_exact_up_to_a_billionth_and_never_less_than_written(number: str, suffix: str) -> None:
    exact = Fraction(number) * SUFFIXES[suffix]
    nano = parse_quantity(number + suffix).nano_value
    if suffix.endswith("i") and abs(exact) > 2**63 - 1:
        assert abs(nano) == (2**63 - 1) * 10**9
    else:
        assert abs(exact) * 10**9 <= abs(nano) < abs(exact) * 10**9 + 1
        assert nano * exact >= 0


@given(numbers, st.sampled_from(sorted(SUFFIXES)))
def test_canonical_text_means_the_same_and_is_stable(number: str, suffix: str) -> None:
    quantity = parse_quantity(number + suffix)
    again = parse_quantity(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)


@given(numbers, numbers)
def test_arithmetic_and_order_follow_the_numbers(left: str, right: str) -> None:
    a, b = parse_quantity(left), parse_quantity(right)
    assert (a + b).nano_value == a.nano_value + b.nano_value
    assert (a - b) + b == a
    assert (-a).nano_value == -a.nano_value
    assert (a < b) == (a.nano_value < b.nano_value)
    assert (a <= b) or (b <= a)
    assert hash(a) == hash(Quantity(a.nano_value, "binary"))
    assert bool(a) == (a.nano_value != 0)


@given(st.text(max_size=20))
def test_any_text_parses_or_is_refused(text: str) -> None:
    with suppress(BadQuantity):
        assert parse_quantity(str(parse_quantity(text))) == parse_quantity(text)


def test_sums_keep_the_first_notation_that_is_not_zero() -> None:
    assert str(parse_quantity("1Gi") + parse_quantity("1000000")) == "1074741824"
    assert str(parse_quantity("1Gi") + parse_quantity("1Mi")) == "1025Mi"
    assert str(Quantity(0) + parse_quantity("2Ki")) == "2Ki"


def test_does_not_change_and_travels() -> None:
    quantity = parse_quantity("1Gi")
    with pytest.raises(AttributeError, match="a Quantity is immutable"):
        quantity.x = 1
    assert pickle.loads(pickle.dumps(quantity)) == quantity
    assert repr(quantity) == "Quantity('1Gi')"
    assert quantity != "1Gi"


@pytest.mark.parametrize(("wire", "milli"), [("2", 2000), (2, 2000), (0.5, 500), (1e3, 1000000)])
def test_arrives_as_text_or_number(wire: object, milli: int) -> None:
    assert decode_quantity(Quantity, wire).milli_value == milli


@pytest.mark.parametrize("wire", [True, [], {}, float("inf")])
def test_other_wires_are_refused(wire: object) -> None:
    with pytest.raises(BadQuantity):
        decode_quantity(Quantity, wire)
