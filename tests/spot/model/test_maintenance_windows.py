"""Maintenance windows (B13)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.spot.model.maintenance_windows import BadWindow, Window, any_window_open, parse_cron, parse_time_zone


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def window(cron: str, hours: float = 2, zone: str = "UTC") -> Window:
    return Window(parse_cron(cron), hours * 3600, parse_time_zone(zone))


@pytest.mark.rule("spot:B13")
@pytest.mark.parametrize(
    ("cron", "moment", "want"),
    [
        pytest.param("0 2 * * *", "2026-11-21T01:59:59", False, id="not yet"),
        pytest.param("0 2 * * *", "2026-11-21T02:00:00", True, id="opens"),
        pytest.param("0 2 * * *", "2026-11-21T03:59:59", True, id="still open"),
        pytest.param("0 2 * * *", "2026-11-21T04:00:00", False, id="closes"),
        pytest.param("0 2 * * sat,sun", "2026-11-21T02:30:00", True, id="a Saturday"),
        pytest.param("0 2 * * mon-fri", "2026-11-21T02:30:00", False, id="no weekday"),
        pytest.param("0 2 * * 7", "2026-11-22T02:30:00", True, id="Sunday is 7 too"),
        pytest.param("0 23 * * *", "2026-11-22T00:30:00", True, id="over midnight"),
        pytest.param("*/30 */6 1 nov *", "2026-11-01T06:40:00", True, id="steps and names"),
        pytest.param("0 2 1 * mon", "2026-11-23T02:30:00", True, id="one of the two days is enough"),
        pytest.param("0 2 31 2 *", "2026-11-21T02:30:00", False, id="never"),
    ],
)
def test_when_a_window_is_open(cron: str, moment: str, want: bool) -> None:
    assert window(cron).is_open_at(at(moment)) is want


@pytest.mark.rule("spot:B13", "spot:F15")
def test_time_zones_and_their_clocks_are_followed() -> None:
    berlin = window("0 2 * * *", zone="Europe/Berlin")
    assert berlin.is_open_at(at("2026-11-21T01:30:00"))
    assert berlin.is_open_at(at("2026-07-21T00:30:00"))
    assert not berlin.is_open_at(at("2026-07-21T02:30:00"))


@pytest.mark.rule("spot:B13")
def test_without_windows_it_is_always_open() -> None:
    assert any_window_open((), 0)
    assert not any_window_open([window("0 2 * * *")], at("2026-11-21T12:00:00"))
    assert any_window_open([window("0 2 * * *"), window("0 12 * * *")], at("2026-11-21T12:00:00"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 2 * *", "found 4 fields"),
        ("60 2 * * *", "minute: found '60', allowed: 0 to 59"),
        ("0 2 * * someday", "day of week: found 'someday'"),
        ("0 5-2 * * *", "hour: found '5-2', allowed: a range that rises"),
        ("*/0 2 * * *", "minute: found '\\*/0', allowed: a range"),
        ("0 2 0 * *", "day of month: found '0', allowed: 1 to 31"),
        ("@daily", "found 1 fields"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(BadWindow, match=message):
        parse_cron(text)
    with pytest.raises(BadWindow, match="Nowhere"):
        parse_time_zone("Nowhere/Land")


@pytest.mark.rule("spot:B13")
@given(st.integers(0, 59), st.integers(0, 23), st.integers(1, 1440), st.integers(0, 1440))
def test_a_daily_window_is_open_for_its_duration(minute: int, hour: int, minutes: int, later: int) -> None:
    opens = at(f"2026-11-20T{hour:02}:{minute:02}:00")
    daily = Window(parse_cron(f"{minute} {hour} * * *"), minutes * 60, parse_time_zone("UTC"))
    assert daily.is_open_at(opens + later * 60) is (later % 1440 < minutes)
