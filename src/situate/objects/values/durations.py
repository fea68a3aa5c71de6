"""Durations in the form of a configuration, and in the form of kubectl.

Text follows Go's `time.ParseDuration` (https://pkg.go.dev/time#ParseDuration); a bare number is seconds.
`situate.objects.settings.section` adds the place in the file to errors.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

NANOSECONDS_FROM = 10**9
"""A bare number of at least this size counts as Go's nanoseconds: as seconds it would be 31 years."""

LONGEST_S = Fraction(2**63 - 1, 10**9)
"""Go's longest duration in seconds, about 292 years."""

_UNITS_S = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),  # U+00B5, the micro sign
    "μs": Fraction(1, 10**6),  # U+03BC, the Greek letter; Go reads both
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_WHOLE = re.compile(rf"[+-]?({_PART.pattern})+", re.ASCII)
_LONGEST_TEXT = 64


class BadDuration(ValueError):
    """An invalid duration. The text is the next step for the user and does not repeat the value."""


def parse_duration(value: object) -> float:
    """Return the seconds of a duration: a number of seconds, or a text with an optional sign.

    Examples of texts are `"100s"`, `"5m"`, `"1h30m"`, `"1.5h"`, `"250ms"` and `"0"`. The sum of the parts is rounded
    once. Raises `BadDuration` for any other value, and for a bare number of 10^9 or more.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadDuration('write a duration such as "100s"')
    if isinstance(value, str):
        return _parse_text(value.strip())
    if isinstance(value, float) and not math.isfinite(value):
        raise BadDuration("write a finite number of seconds")
    if abs(value) >= NANOSECONDS_FROM:
        raise BadDuration(f"the number is a Go duration in nanoseconds; write {format_duration(value / 10**9)}")
    return float(value)


def format_duration(seconds: float) -> str:
    """Return the shortest text that `parse_duration` reads as the same number, such as `1h30m`, `100s` or `0.25s`."""
    sign, rest = ("-", -seconds) if seconds < 0 else ("", seconds)
    if not math.isfinite(rest) or rest != int(rest):
        return f"{sign}{Decimal(repr(rest)):f}s" if math.isfinite(rest) else f"{seconds}s"
    whole = int(rest)
    hours, minutes, left = whole // 3600, whole % 3600 // 60, whole % 60
    if whole < 120 or (left and not hours):
        return f"{sign}{whole}s"
    parts = ((hours, "h"), (minutes, "m"), (left, "s"))
    return sign + "".join(f"{amount}{unit}" for amount, unit in parts if amount)


def human_duration(left: int) -> str:
    """Return seconds in the two largest units, as kubectl shows ages: `5d23h` (apimachinery util/duration)."""
    if left < -1:
        return "<invalid>"
    if left < 0:
        return "0s"
    minutes, hours, days = left // 60, left // 3600, left // 86400
    if left < 120:
        return f"{left}s"
    if minutes < 10:
        return f"{minutes}m{left % 60}s" if left % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years = days // 365
    if years < 8:
        return f"{years}y{days % 365}d" if days % 365 else f"{years}y"
    return f"{years}y"


def _parse_text(text: str) -> float:
    if text in ("0", "+0", "-0"):
        return 0.0
    if len(text) > _LONGEST_TEXT:
        raise BadDuration('write fewer digits, such as "100s"')
    if not _WHOLE.fullmatch(text):
        if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)", text, re.ASCII):
            raise BadDuration(f'add a unit: "{text}s", or write the number without quotes')
        raise BadDuration('write a duration such as "100s", "5m" or "1h30m"; the units are ns, us, ms, s, m and h')
    total = sum((Fraction(number) * _UNITS_S[unit] for number, unit in _split_units(text)), Fraction(0))
    if total > LONGEST_S:
        raise BadDuration('the longest duration is "2562047h"')
    return float(-total if text.startswith("-") else total)


def _split_units(text: str) -> list[tuple[str, str]]:
    return [(match[1].rstrip(".") if match[1] != "." else "0", match[2]) for match in _PART.finditer(text)]
