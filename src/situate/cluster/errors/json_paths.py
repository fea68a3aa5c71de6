"""Evaluate the part of JSONPath that printer columns use: fields, indices, wildcards and `[?(@.a=="b")]`.

An expression that cannot be parsed yields no values, like a column without a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_STEP: Final = re.compile(
    r"""\.(?P<field>(?:[^.\[\]\\]|\\.)+)
      | \[(?P<index>-?\d+)\]
      | \[(?P<all>\*)\]
      | \[(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)")\]
      | \[\?\(\s*@(?P<path>[^=!\s]+)\s*(?P<operator>==|!=)\s*(?P<value>"[^"]*"|'[^']*'|[^)\s]+)\s*\)\]""",
    re.VERBOSE,
)


def values_at(obj: Any, path: str) -> list[Any]:
    """Return every value that the path selects."""
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    text = text.removeprefix("$")
    found = [obj]
    position = 0
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            return []
        found = [value for one in found for value in _apply_step(one, step)]
        position = step.end()
    return found


def _apply_step(value: Any, step: re.Match[str]) -> list[Any]:
    field = step["field"] or step["single"] or step["double"]
    if field is not None:
        if field == "*":
            return _children(value)
        name = re.sub(r"\\(.)", r"\1", field)
        return [value[name]] if isinstance(value, Mapping) and name in value else []
    if step["all"]:
        return _children(value)
    if step["index"] is not None:
        index = int(step["index"])
        return [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []
    if not isinstance(value, list):
        return []
    wanted = step["value"].strip("\"'")
    same = step["operator"] == "=="
    return [item for item in value if (_first_text(item, step["path"]) == wanted) is same]


def _first_text(item: Any, path: str) -> str | None:
    found = values_at(item, path)
    if not found:
        return None
    if isinstance(found[0], bool):
        return "true" if found[0] else "false"
    return str(found[0])


def _children(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return list(value.values()) if isinstance(value, Mapping) else []
