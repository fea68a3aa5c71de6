"""Times in the form of Kubernetes (apimachinery meta/v1 time.go, micro_time.go): RFC 3339, in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:([Zz])|([+-])(\d\d):(\d\d))", re.ASCII
)

_PLAIN: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


class BadTime(ValueError):
    """An invalid time; the message describes the valid form."""


def parse_time(text: str) -> datetime:
    """Parse a time, in UTC; digits below a microsecond are dropped."""
    if len(text) == 20 and text[-1] == "Z" and _PLAIN.fullmatch(text):  # nearly all times
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            pass  # reported below
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise BadTime(_invalid_time_text(text))
    *numbers, fraction, _, sign, hours, minutes = match.groups()
    year, month, day, hour, minute, second = map(int, numbers)
    try:
        offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
        micro = int((fraction or "0")[:6].ljust(6, "0"))
        moment = datetime(year, month, day, hour, minute, second, micro, timezone(offset))
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadTime(f"{_invalid_time_text(text)} ({error})") from error


def rfc3339(moment: datetime) -> str:
    """Format whole seconds, as `metav1.Time`: `2024-01-31T12:00:00Z`."""
    return _utc(moment).isoformat(timespec="seconds").replace("+00:00", "Z")


def micro_time(moment: datetime) -> str:
    """Format with six decimals, as `metav1.MicroTime` for Lease and Event: `2024-01-31T12:00:00.000000Z`."""
    return _utc(moment).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise BadTime(f"{moment} has no time zone; add one, such as UTC")
    return moment.astimezone(UTC)


def _invalid_time_text(text: str) -> str:
    return f"{text[:60]!r} is not a time; write it as 2024-01-31T12:00:00Z"
