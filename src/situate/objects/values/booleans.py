"""Booleans in text, read as Go's strconv.ParseBool does; annotations use this form."""

from __future__ import annotations

from typing import Final

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def parse_bool(text: str | None) -> bool | None:
    """Parse a boolean. Return None for None and for any other text; the caller decides what None means."""
    return True if text in _TRUE else False if text in _FALSE else None
