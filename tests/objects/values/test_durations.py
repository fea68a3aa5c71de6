from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.objects.values.durations import BadDuration, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("100s", 100.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("250ms", 0.25),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("0", 0.0),
        ("-5s", -5.0),
        ("+1m1s", 61.0),
        ("1us", 1e-6),
        ("1µs1μs", 2e-6),
        ("3ns", 3e-9),
        (" 10s ", 10.0),
        (7, 7.0),
        (0.5, 0.5),
        (999_999_999, 999_999_999.0),
    ],
)
def test_reads_what_go_reads_and_plain_seconds(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("value", "next_step"),
    [
        (10**9, "a Go duration in nanoseconds; write 1s"),
        (100 * 10**9, "a Go duration in nanoseconds; write 100s"),
        (-(10**9), "a Go duration in nanoseconds"),
        (1e9, "a Go duration in nanoseconds"),
        ("100", 'add a unit: "100s"'),
        ("5 m", 'such as "100s"'),
        ("1d", "the units are"),
        ("", 'such as "100s"'),
        ("s", 'such as "100s"'),
        ("--5s", 'such as "100s"'),
        ("٣s", 'such as "100s"'),
        ("9" * 60 + "h", "longest"),
        ("9" * 600 + "h", 'such as "100s"'),
        (True, 'such as "100s"'),
        (None, 'such as "100s"'),
        ([5], 'such as "100s"'),
        (float("nan"), "finite"),
        (float("inf"), "finite"),
    ],
)
def test_refuses_the_rest_and_says_the_next_step(value: object, next_step: str) -> None:
    with pytest.raises(BadDuration, match=next_step.replace("(", r"\(")):
        parse_duration(value)


@given(st.floats(-(2.0**33), 2.0**33))
def test_what_is_written_reads_back_the_same(seconds: float) -> None:
    if len(format_duration(seconds)) <= 64:
        assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (100, "100s"), (300, "5m"), (5400, "1h30m"), (3661, "1h1m1s"), (0.25, "0.25s"), (130, "130s")],
)
def test_is_written_the_way_people_write(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
