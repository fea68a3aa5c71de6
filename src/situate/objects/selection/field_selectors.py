"""Field selectors such as `spec.nodeName=n1,status.phase!=Failed` (apimachinery pkg/fields selector.go).

The server decides which fields of a resource a selector may name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from situate.objects.selection.label_selectors import BadSelector

_OPERATOR: Final = re.compile(r"!=|==|=")
_ESCAPED: Final = re.compile(r"\\(.?)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition on a field."""

    field: str
    value: str
    equal: bool
    """True if the field must have the value, False if it must not."""

    def __str__(self) -> str:
        return f"{self.field}{'=' if self.equal else '!='}{escape_value(self.value)}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A field selector: all requirements must hold; without requirements it matches every object."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether the fields match. An absent field counts as empty."""
        return all((fields.get(each.field, "") == each.value) is each.equal for each in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERY_FIELD: Final = FieldSelector()


def parse_field_selector(text: str) -> FieldSelector:
    """Parse a field selector; empty parts between commas are skipped. Raises `BadSelector` with the position."""
    requirements = []
    position = 0
    for term in _split_terms(text):
        if term:
            requirements.append(_parse_requirement(term, f"field selector {text[:100]!r}, character {position + 1}"))
        position += len(term) + 1
    return FieldSelector(tuple(requirements))


def field_text(content: Mapping[str, Any], path: str) -> str:
    """Return the text at the dotted path of an object; empty unless it is a text, an integer or a boolean."""
    found: object = content
    for step in path.split("."):
        if not isinstance(found, Mapping):
            return ""
        found = found.get(step)
    match found:
        case bool():
            return "true" if found else "false"
        case str() | int():
            return str(found)
        case _:
            return ""


def escape_value(value: str) -> str:
    """Escape a value for use in a selector."""
    return re.sub(r"([\\,=])", r"\\\1", value)


def _split_terms(text: str) -> list[str]:
    """Split at commas without a backslash before them."""
    terms = [""]
    escaped = False
    for character in text:
        if character == "," and not escaped:
            terms.append("")
        else:
            terms[-1] += character
        escaped = character == "\\" and not escaped
    return terms


def _parse_requirement(term: str, place: str) -> FieldRequirement:
    match = _OPERATOR.search(term)
    if match is None:
        raise BadSelector(f"{place}: found {term[:60]!r}, allowed: FIELD=VALUE, FIELD==VALUE or FIELD!=VALUE")
    return FieldRequirement(term[: match.start()], _unescape_value(term[match.end() :], place), match[0] != "!=")


def _unescape_value(value: str, place: str) -> str:
    for escape in _ESCAPED.finditer(value):
        if escape[1] not in ("\\", ",", "="):
            raise BadSelector(f"{place}: found {escape[0]!r}, allowed: \\\\ \\, and \\= as escapes")
    if "=" in _ESCAPED.sub("", value):
        raise BadSelector(f"{place}: found '=' within the value {value[:60]!r}, allowed: \\= there")
    return _ESCAPED.sub(r"\1", value)
