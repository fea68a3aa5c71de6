"""Convert the values of a schema for its CEL rules: their CEL types and their CEL values.

After `apiserver/pkg/cel/common/schemas.go` and `values.go`. Names that are not identifiers are escaped, for example
`a-b` as `a__dash__b`. Fields that the schema does not describe are hidden.
"""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Mapping
from typing import Any, Final

from situate.cluster.cel.syntax import RESERVED_WORDS
from situate.cluster.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    object_type,
)

_Map = Mapping[str, Any]
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_SPECIAL: Final = re.compile(r"__|[./-]")
_ACCESSIBLE: Final = re.compile(r"[A-Za-z_./-][\w./-]*", re.ASCII)
_NUMBERS: Final = {"boolean": BOOL, "integer": INT, "number": DOUBLE}
_FORMATS: Final = {
    "byte": BYTES,
    "date": TIMESTAMP,
    "date-time": TIMESTAMP,
    "duration": DURATION,
}
_META: Final = object_type("selfType.metadata", {"name": STRING, "generateName": STRING})
_DURATION_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_DURATION_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


def cel_identifier(name: str) -> str:
    """Return the CEL identifier for a property; empty if none exists."""
    if name in RESERVED_WORDS:
        return f"__{name}__"
    return _SPECIAL.sub(lambda match: _ESCAPES[match[0]], name) if _ACCESSIBLE.fullmatch(name) else ""


def rule_type(schema: _Map, *, root: bool, name: str = "selfType") -> Type | None:
    """Return the CEL type of a schema's values; None if the schema gives no type.

    `root`: the schema describes a whole object, with a kind and a name.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    kind = schema.get("type", "")
    if kind == "array":
        items = schema.get("items") or {}
        found = rule_type(items, root=_is_embedded(items), name=f"{name}.@idx")
        return None if found is None else list_of(found)
    if kind == "object":
        return _object_type(schema, root, name)
    if kind == "string":
        return _FORMATS.get(schema.get("format", ""), STRING)
    return _NUMBERS.get(kind)


def _object_type(schema: _Map, root: bool, name: str) -> Type | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        values = rule_type(additional, root=_is_embedded(additional), name=f"{name}.@elem")
        return None if values is None else map_of(STRING, values)
    fields: dict[str, Type] = {}
    for key, below in schema.get("properties", {}).items():
        found = rule_type(below, root=_is_embedded(below), name=f"{name}.{key}")
        if found is not None and cel_identifier(key):
            fields[cel_identifier(key)] = found
    if root:
        fields |= {"kind": STRING, "apiVersion": STRING, "metadata": _META}
    return object_type(name, fields)


def _is_embedded(schema: _Map) -> bool:
    return bool(schema.get("x-kubernetes-embedded-resource"))


def rule_value(value: Any, schema: _Map, *, root: bool) -> Any:
    """Convert a valid value of the schema to the CEL value for its rules."""
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [rule_value(item, items, root=_is_embedded(items)) for item in value]
    if isinstance(value, dict):
        return _object_value(value, schema, root)
    kind = schema.get("type")
    if kind == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind == "string" and isinstance(value, str):
        return _text_value(value, schema.get("format", ""))
    return value


def _object_value(value: _Map, schema: _Map, root: bool) -> dict[str, Any]:
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        return {key: rule_value(item, additional, root=_is_embedded(additional)) for key, item in value.items()}
    properties = schema.get("properties", {})
    seen = {
        cel_identifier(key): rule_value(item, properties[key], root=_is_embedded(properties[key]))
        for key, item in value.items()
        # A null in a nullable field counts as an absent field.
        if key in properties and item is not None
    }
    if root:
        metadata = value.get("metadata") or {}
        seen["metadata"] = {key: metadata[key] for key in ("name", "generateName") if key in metadata}
        seen |= {key: value[key] for key in ("kind", "apiVersion") if key in value}
    return seen


def _text_value(text: str, format_: str) -> Any:
    """Convert a text by its format. Validation has already refused texts that do not match the format."""
    match format_:
        case "byte":
            return base64.b64decode(text)
        case "date" | "date-time":
            at = datetime.datetime.fromisoformat(text)
            return at if at.tzinfo else at.replace(tzinfo=datetime.UTC)
        case "duration":
            seconds = sum(float(number) * _DURATION_UNITS[unit] for number, unit in _DURATION_PART.findall(text))
            return datetime.timedelta(seconds=-seconds if text.startswith("-") else seconds)
        case _:
            return text
