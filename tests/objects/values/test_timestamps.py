from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.objects.values.timestamps import BadTime, micro_time, parse_time, rfc3339


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-01-31T12:00:00Z", datetime(2024, 1, 31, 12, tzinfo=UTC)),
        ("2024-01-31t12:00:00z", datetime(2024, 1, 31, 12, tzinfo=UTC)),
        ("2024-01-31T12:00:00.5Z", datetime(2024, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC)),
        ("2024-01-31T12:00:00.123456789Z", datetime(2024, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)),
        ("2024-01-31T12:00:00+02:00", datetime(2024, 1, 31, 10, tzinfo=UTC)),
        ("2024-01-31T12:00:00-00:30", datetime(2024, 1, 31, 12, 30, tzinfo=UTC)),
    ],
)
def test_parse(text: str, moment: datetime) -> None:
    assert parse_time(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2024-01-31",
        "2024-01-31T12:00:00",
        "2024-02-30T12:00:00Z",
        "2024-01-31T25:00:00Z",
        "2024-01-31 12:00:00Z",
        "0001-01-01T00:00:00+23:00",
        "2024-01-31T12:00:00+99:00",
        "٢٠٢٤-01-31T12:00:00Z",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(BadTime, match="is not a time; write it as"):
        parse_time(text)


_EARLIEST = datetime.fromisoformat("0002-01-01")


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))]), min_value=_EARLIEST))
def test_micro_time_comes_back_and_has_six_decimals(moment: datetime) -> None:
    text = micro_time(moment)
    assert parse_time(text) == moment
    assert len(text) == 27
    assert parse_time(rfc3339(moment)) == moment.replace(microsecond=0)


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(BadTime, match="has no time zone"):
        rfc3339(datetime(2024, 1, 1))  # noqa: DTZ001  # the point of the test
