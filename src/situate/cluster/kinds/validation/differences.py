"""Show how two values differ, in readable lines: `-` for old values, `+` for new ones."""

from __future__ import annotations

from typing import Any

import msgspec


def difference(before: Any, after: Any) -> str:
    """Return the lines that differ. Unchanged members are omitted, and nested lines are indented by two spaces."""
    return "\n".join(_lines("", before, after, 0))


def _lines(name: str, before: Any, after: Any, depth: int) -> list[str]:
    pad = "  " * (depth + 1)
    if isinstance(before, dict) and isinstance(after, dict):
        inner = [
            line
            for key in sorted({*before, *after})
            if before.get(key) != after.get(key)
            for line in _lines(f"{key}: ", before.get(key), after.get(key), depth + 1)
        ]
        return [f"{pad}{name}{{", *inner, f"{pad}}}"]
    if isinstance(before, list) and isinstance(after, list):
        size = max(len(before), len(after))
        pairs = [(_item_at(before, index), _item_at(after, index)) for index in range(size)]
        inner = [
            line
            for index, (left, right) in enumerate(pairs)
            if left != right
            for line in _lines(f"{index}: ", left, right, depth + 1)
        ]
        return [f"{pad}{name}[", *inner, f"{pad}]"]
    old, new = (msgspec.json.encode(value).decode() for value in (before, after))
    return [f"-{pad[1:]}{name}{old}", f"+{pad[1:]}{name}{new}"]


def _item_at(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else None
