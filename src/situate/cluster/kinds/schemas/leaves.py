"""Decode scalars with their own codec: times, quantities, integers or strings, bytes.

Each function returns the value as the API server encodes it, or raises `LeafError` with upstream's text.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from situate.cluster.errors.quantity_text import MALFORMED, QuantityError, canonical_quantity

TIME_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
MICRO_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"


class LeafError(ValueError):
    """The value cannot be decoded. The message is the whole text after `cannot be handled as a …: `."""


def decode_quantity(value: Any) -> str:
    """Return the canonical text of a quantity given as text or number."""
    if type(value) is str:
        text = value
    elif type(value) in (int, float):
        text = str(value)
    else:
        raise LeafError(MALFORMED)
    try:
        return canonical_quantity(text)
    except QuantityError as error:
        raise LeafError(str(error)) from None


_TIME: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)([.,]\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_STEPS: Final = (("2006", r"\d{4}"), ("-", "-"), ("01", r"\d\d"), ("-", "-"), ("02", r"\d\d"), ("T", "T"))
_CLOCK: Final = (("15", r"\d\d?"), (":", ":"), ("04", r"\d\d"), (":", ":"), ("05", r"\d\d"))


@lru_cache(maxsize=1024)
def decode_time(text: str) -> str:
    """Return the time as RFC 3339 in UTC with whole seconds."""
    return _parse_moment(text, TIME_LAYOUT).strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=1024)
def decode_micro_time(text: str) -> str:
    """Return the time as RFC 3339 in UTC with six decimals. The input must have six decimals too."""
    return _parse_moment(text, MICRO_LAYOUT).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _parse_moment(text: str, layout: str) -> datetime:
    match = _TIME.fullmatch(text)
    if match is None or (layout is MICRO_LAYOUT and len(match[7] or "") != 7):
        raise LeafError(_time_error(text, layout))
    try:
        moment = datetime.fromisoformat(
            text[:19]
            + ((match[7] or "")[:7]).replace(",", ".").ljust(7, "0")[:7].replace("0000000", "")
            + match[8].replace("Z", "+00:00")
        )
    except ValueError:
        raise LeafError(f"parsing time {_quote_text(text)}: {_out_of_range_part(match)} out of range") from None
    return moment.astimezone(UTC)


def _out_of_range_part(match: re.Match[str]) -> str:
    """Return the name of the part that Go reports as out of range."""
    for index, (name, low, high) in enumerate(
        (("month", 1, 12), ("day", 1, 31), ("hour", 0, 23), ("minute", 0, 59), ("second", 0, 59))
    ):
        if not low <= int(match[index + 2]) <= high:
            return name
    return "day"


def _time_error(text: str, layout: str) -> str:
    rest = text
    steps = _STEPS + _CLOCK + ((((".000000", r"\.\d{6}"),)) if layout is MICRO_LAYOUT else ())
    for element, pattern in steps:
        match = re.match(pattern, rest, re.ASCII)
        if match is None:
            return f'parsing time {_quote_text(text)} as "{layout}": cannot parse {_quote_text(rest)} as "{element}"'
        rest = rest[match.end() :]
        if element == "05" and layout is TIME_LAYOUT:
            fraction = re.match(r"[.,]\d+", rest, re.ASCII)
            rest = rest[fraction.end() :] if fraction else rest
    zone = re.match(r"Z|[+-]\d\d:\d\d", rest, re.ASCII)
    if zone is None:
        return f'parsing time {_quote_text(text)} as "{layout}": cannot parse {_quote_text(rest)} as "Z07:00"'
    return f"parsing time {_quote_text(text)}: extra text: {_quote_text(rest[zone.end() :])}"


def _quote_text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def decode_base64(text: str) -> str:
    """Return the text as standard base64 with padding."""
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode()
    except (binascii.Error, ValueError):
        position = next((index for index, char in enumerate(text) if not re.match(r"[A-Za-z0-9+/]", char)), len(text))
        raise LeafError(f"illegal base64 data at input byte {position}") from None
