"""Check that an applied configuration fits the types: every field is declared and every value has its type.

After `structured-merge-diff/typed/validate.go`, with its error texts.
"""

from __future__ import annotations

from typing import Any

from situate.cluster.errors.go_text import format_go_value, quote
from situate.cluster.kinds.schemas.nodes import UNTYPED, Schema
from situate.cluster.patch.fieldmanager_paths import NotAssociativeError, Path, format_path, item_element
from situate.cluster.patch.fieldmanager_values import child_schema


def wrong_fields(value: Any, schema: Schema) -> list[str]:
    """Return one text per error, such as `.spec.foo: field not declared in schema`, sorted by field.

    The check of an object stops at its first undeclared field.
    """
    found: list[str] = []
    _check(value, schema, (), found)
    return found


def _check(value: Any, schema: Schema, path: Path, found: list[str]) -> None:
    if value is None or schema.untyped or schema.int_or_string:
        return
    if schema.type == "object" or schema.properties or schema.additional is not None:
        _check_map(value, schema, path, found)
    elif schema.type == "array":
        _check_list(value, schema, path, found)
    elif schema.type == "string" and schema.format != "quantity":
        if not isinstance(value, str):
            found.append(f"{format_path(path)}: expected string, got {_format_scalar(value)}")
    elif schema.type in ("integer", "number"):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            found.append(f"{format_path(path)}: expected numeric (int or float), got {_go_type(value)}")
    elif schema.type == "boolean" and not isinstance(value, bool):
        found.append(f"{format_path(path)}: expected boolean, got &{{{format_go_value(value)}}}")


def _check_map(value: Any, schema: Schema, path: Path, found: list[str]) -> None:
    if not isinstance(value, dict):
        found.append(f"{format_path(path)}: expected map, got &{{{format_go_value(value)}}}")
        return
    open_ = schema.additional is not None or schema.preserve_unknown or not schema.properties
    for key, item in sorted(value.items()):
        here = (*path, f"f:{key}")
        if key not in schema.properties and not open_:
            found.append(f"{format_path(here)}: field not declared in schema")
            return
        _check(item, child_schema(schema, key), here, found)


def _check_list(value: Any, schema: Schema, path: Path, found: list[str]) -> None:
    if not isinstance(value, list):
        found.append(f"{format_path(path)}: expected list, got &{{{format_go_value(value)}}}")
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if schema.list_type in ("set", "map"):
            try:
                element = item_element(item, schema)
            except NotAssociativeError as error:
                found.append(f"{format_path(path)}: element {index}: {error}")
                continue
            if element in seen:
                found.append(f"{format_path(path)}: duplicate entries for key {format_path((element,))}")
            seen.add(element)
        _check(item, schema.items or UNTYPED, (*path, element), found)


def _go_type(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    return "map[string]interface {}" if isinstance(value, dict) else "[]interface {}"


def _format_scalar(value: Any) -> str:
    """Return the value as Go prints the wrapped value with its type."""
    return f"&value.valueUnstructured{{Value:{_format_typed(value)}}}"


def _format_typed(value: Any) -> str:
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return (
            "map[string]interface {}{"
            + ", ".join(f"{quote(key)}:{_format_typed(value[key])}" for key in sorted(value))
            + "}"
        )
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(_format_typed, value)) + "}"
    return "interface {}(nil)" if value is None else str(value)
