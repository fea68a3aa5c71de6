"""Maintenance windows, in which policy may move pods. A cron line in a time zone sets when a window opens.

Five fields as in crontab(5): minute, hour, day of month, month, day of week (0 and 7 are Sunday); lists, ranges, steps
and English names. If both day fields are restricted, a day matches if one of them does. Rule: B13.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

LONGEST_S: Final = 24 * 3600.0
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PART: Final = re.compile(r"(\*|[0-9a-z]{1,3}(?:-[0-9a-z]{1,3})?)(?:/([0-9]{1,2}))?", re.ASCII)
_FIELDS: Final[tuple[tuple[str, int, int], ...]] = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of month", 1, 31),
    ("month", 1, 12),
    ("day of week", 0, 7),
)


class BadWindow(ValueError):
    """Invalid cron line or time zone; the message names the field, the value found and the values allowed."""


@dataclass(frozen=True, slots=True)
class Cron:
    """Minutes at which a window opens."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """Sunday is 0."""
    any_day: bool
    """Whether the day of the month is `*`."""
    any_weekday: bool

    def matches(self, moment: datetime) -> bool:
        if moment.minute not in self.minutes or moment.hour not in self.hours or moment.month not in self.months:
            return False
        day, weekday = moment.day in self.days, moment.isoweekday() % 7 in self.weekdays
        return (day and weekday) if self.any_day or self.any_weekday else (day or weekday)


@dataclass(frozen=True, slots=True)
class Window:
    cron: Cron
    duration_s: float
    """At most a day."""
    zone: ZoneInfo

    def is_open_at(self, now: float) -> bool:
        """Return whether the window opened within its duration; follows changes of the zone's clock."""
        moment = datetime.fromtimestamp(now, UTC).replace(second=0, microsecond=0)
        earliest = now - self.duration_s
        while moment.timestamp() > earliest:
            if self.cron.matches(moment.astimezone(self.zone)):
                return True
            moment -= timedelta(minutes=1)
        return False


def any_window_open(windows: Iterable[Window], now: float) -> bool:
    """Return whether one of the windows is open; without windows, always true."""
    listed = tuple(windows)
    return not listed or any(window.is_open_at(now) for window in listed)


def parse_cron(text: str) -> Cron:
    fields = text.lower().split()
    if len(fields) != len(_FIELDS):
        names = ", ".join(name for name, _, _ in _FIELDS)
        raise BadWindow(f"found {len(fields)} fields in {text[:60]!r}, allowed: five fields ({names})")
    minutes, hours, days, months, weekdays = (
        _parse_field(field, name, least, most) for field, (name, least, most) in zip(fields, _FIELDS, strict=True)
    )
    return Cron(
        minutes,
        hours,
        days,
        months,
        frozenset(day % 7 for day in weekdays),
        any_day=fields[2].startswith("*"),
        any_weekday=fields[4].startswith("*"),
    )


def parse_time_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as problem:
        raise BadWindow(f"found {name[:60]!r}, allowed: the name of a time zone such as Europe/Berlin") from problem


def _parse_field(field: str, name: str, least: int, most: int) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise BadWindow(f"{name}: found {part[:20]!r}, allowed: *, numbers, ranges and steps such as 1-5 or */15")
        span, step = match[1], int(match[2] or 1)
        low, high = (least, most) if span == "*" else _parse_span(span, name, least, most, stepped=match[2] is not None)
        if step < 1 or low > high:
            raise BadWindow(f"{name}: found {part[:20]!r}, allowed: a range that rises, and steps of at least 1")
        found.update(range(low, high + 1, step))
    return frozenset(found)


def _parse_span(text: str, name: str, least: int, most: int, *, stepped: bool) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    low = _parse_number(first, name, least, most)
    if dash:
        return low, _parse_number(last, name, least, most)
    return low, most if stepped else low


def _parse_number(text: str, name: str, least: int, most: int) -> int:
    words = {
        "month": dict(zip(_MONTHS, range(1, 13), strict=True)),
        "day of week": dict(zip(_DAYS, range(7), strict=True)),
    }
    number = words.get(name, {}).get(text, int(text) if text.isdecimal() else -1)
    if not least <= number <= most:
        raise BadWindow(f"{name}: found {text!r}, allowed: {least} to {most}")
    return number
