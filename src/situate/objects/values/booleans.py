"""Text as Go's strconv.ParseBool reads it, the way annotations hold yes and no."""

from __future__ import annotations

from typing import Final

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def parse_bool(text: str | None) -> bool | None:
    """None for any other text, and where there is none: who asks decides what that means."""
    return True if text in _TRUE else False if text in _FALSE else None
