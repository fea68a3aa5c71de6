"""What executors say of themselves, hostile until it is parsed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.sharding.leases.executor_report import EMPTY_REPORT, ExecutorReport, report_of, report_text


@pytest.mark.parametrize(
    "report",
    [
        EMPTY_REPORT,
        ExecutorReport(capacity=3, open=2, metrics={"cpu": 0.5, "memory": 1e9}),
        ExecutorReport(capacity=2.5, draining=True),
        ExecutorReport(full=True),
    ],
)
def test_a_report_is_read_as_it_was_written(report: ExecutorReport) -> None:
    assert report_of(report_text(report)) == (report, ())


@pytest.mark.parametrize(
    ("text", "report", "named"),
    [
        ("[]", EMPTY_REPORT, 'is "[]", allowed: a JSON object'),
        ("{", EMPTY_REPORT, "allowed: a JSON object"),
        ('{"capacity": -1, "open": 2}', ExecutorReport(open=2), "field capacity is -1, allowed: a number from 0"),
        ('{"capacity": true}', EMPTY_REPORT, "field capacity is true"),
        ('{"open": 1.5}', EMPTY_REPORT, "field open is 1.5, allowed: a whole number from 0"),
        ('{"draining": "yes"}', EMPTY_REPORT, 'field draining is "yes"'),
        ('{"metrics": 3, "full": true}', ExecutorReport(full=True), "field metrics is 3"),
        ('{"metrics": {"cpu": "1", "memory": 2}}', ExecutorReport(metrics={"memory": 2.0}), ""),
        ('{"open": ' + "9" * 400 + ', "capacity": ' + "9" * 400 + "}", None, "capacity"),
        ("x" * 20_000, EMPTY_REPORT, "at most 16384 characters"),
    ],
)
def test_what_cannot_be_read_is_told_of_and_left_out(text: str, report: ExecutorReport | None, named: str) -> None:
    found, oddities = report_of(text)
    assert report is None or found == report
    assert (named in " ".join(oddities)) if named else not oddities


@given(st.text(max_size=50) | st.dictionaries(st.text(max_size=9), st.floats() | st.text(max_size=3)).map(str))
def test_any_text_gives_a_report(text: str) -> None:
    found, _ = report_of(text)
    assert found.capacity is None or found.capacity >= 0


def test_no_report_says_nothing() -> None:
    assert report_of(None) == (EMPTY_REPORT, ())
    assert not EMPTY_REPORT.is_full
