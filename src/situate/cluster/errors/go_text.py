"""Print values as Go does in error texts: quoted strings, numbers, JSON types."""

from __future__ import annotations

from typing import Any

_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


def quote(text: str) -> str:
    """Return the text as Go's `%q` prints it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_escape_char(char) for char in text) + '"'


def format_go_value(value: Any) -> str:
    """Return decoded JSON as Go's `%v` prints it."""
    match value:
        case dict():
            return f"map[{' '.join(f'{key}:{format_go_value(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(format_go_value(item) for item in value)}]"
        case bool():
            return "true" if value else "false"
        case None:
            return "<nil>"
        case _:
            return str(value)


def json_type(value: Any) -> str:
    """Return the name of a value's JSON type as Go's decoder prints it."""
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, (int, float)) else "array" if isinstance(value, list) else "object"


def _escape_char(char: str) -> str:
    code = ord(char)
    if code in _ESCAPES:
        return _ESCAPES[code]
    if char.isprintable():
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
