"""Validate a value against a structural schema, with upstream's error texts.

After `kube-openapi/pkg/validation/validate` and `apiextensions-apiserver/pkg/apiserver/schema`. An update is validated
only where it changes something (ratcheting): a part that equals the old one is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from situate.cluster.errors.field_errors import (
    NO_PATH,
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from situate.cluster.errors.go_text import quote
from situate.cluster.kinds.schemas.nodes import MISSING
from situate.cluster.kinds.structural.formats import FORMATS
from situate.cluster.kinds.structural.patterns import compile_pattern
from situate.cluster.kinds.structural.rules import broken_rules

_Raw = Mapping[str, Any]
_MAX_INT32: Final = 2**31 - 1


def validate_value(value: Any, schema: _Raw, path: str, old: Any = MISSING) -> list[FieldError]:
    """Return the errors of a value and of everything inside it. `old` is the previous value, if known."""
    if old is not MISSING and _equal_values(value, old):
        return []
    if value is None and schema.get("nullable"):
        return []
    kind = type(value)
    if _TYPES.get(kind, "null") == schema.get("type"):
        if kind in _SCALARS and schema.keys() <= _CHECKED_WITH_TYPE:
            return []
        errors: list[FieldError] = []
    else:
        errors = _type(value, schema, path)
    if not _COMBINATIONS.isdisjoint(schema):
        errors += _combinations(value, schema, path)
    if isinstance(value, str):
        errors += _text(value, schema, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        errors += _number(value, schema, path)
    elif isinstance(value, list):
        errors += _list(value, schema, path, old)
    if schema.get("enum") and not any(_equal_values(value, choice) for choice in schema["enum"]):
        choices = [choice if isinstance(choice, str) else _json(choice) for choice in schema["enum"]]
        errors.append(not_supported(path, value, choices))
    if isinstance(value, dict):
        errors += _object(value, schema, path, old)
    return errors


_TYPES: Final[Mapping[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
}
_SCALARS: Final = frozenset({str, int, float, bool})
_CHECKED_WITH_TYPE: Final = frozenset({"type", "description", "title", "default", "nullable"})
_COMBINATIONS: Final = frozenset({"anyOf", "oneOf", "allOf", "not"})


def _equal_values(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _json_type(value: Any) -> tuple[str, str]:
    """Return the type's name and upstream's format of numbers."""
    if value is None:
        return "null", ""
    if isinstance(value, bool):
        return "boolean", ""
    if isinstance(value, int):
        return "integer", "int64"
    if isinstance(value, float):
        return "number", "float64"
    if isinstance(value, str):
        return "string", ""
    return ("array", "") if isinstance(value, list) else ("object", "")


def _wrong_type(path: str, wanted: str, found: str) -> FieldError:
    return type_invalid(path, found, f"{path} in body must be of type {wanted}: {quote(found)}")


def _type(value: Any, schema: _Raw, path: str) -> list[FieldError]:
    wanted = ["integer", "string"] if schema.get("x-kubernetes-int-or-string") else [schema.get("type", "")]
    if wanted == [""]:
        return []
    found, number_format = _json_type(value)
    format_ = schema.get("format", "")
    fits = found in wanted or (found == "integer" and "number" in wanted)
    if fits:
        return []
    if format_ and found not in ("string", "array"):
        return [_wrong_type(path, format_, number_format)]
    return [_wrong_type(path, ",".join(wanted), found)]


def _combinations(value: Any, schema: _Raw, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    shown = quote(path)
    if schema.get("anyOf"):
        failures = [validate_value(value, branch, path) for branch in schema["anyOf"]]
        if all(failures):
            errors.append(invalid(NO_PATH, "", f"{shown} must validate at least one schema (anyOf)"))
            errors += _fewest_errors(failures)
    if schema.get("oneOf"):
        failures = [validate_value(value, branch, path) for branch in schema["oneOf"]]
        fitting = sum(not failure for failure in failures)
        if fitting != 1:
            found = "Found none valid" if not fitting else f"Found {fitting} valid alternatives"
            detail = f"{shown} must validate one and only one schema (oneOf). {found}"
            errors.append(invalid(NO_PATH, "", detail))
            errors += [] if fitting else _fewest_errors(failures)
    failures = [failure for branch in schema.get("allOf", ()) if (failure := validate_value(value, branch, path))]
    if failures:
        none = len(failures) == len(schema["allOf"])
        detail = f"{shown} must validate all the schemas (allOf){'. None validated' if none else ''}"
        errors.append(invalid(NO_PATH, "", detail))
        errors += [error for failure in failures for error in failure]
    if "not" in schema and not validate_value(value, schema["not"], path):
        errors.append(invalid(NO_PATH, "", f"{shown} must not validate the schema (not)"))
    return errors


def _fewest_errors(failures: list[list[FieldError]]) -> list[FieldError]:
    """Return the errors of the branch with the fewest; the first of equals."""
    closest = failures[0]
    for failure in failures:
        if len(failure) < len(closest):
            closest = failure
    return closest


def _text(value: str, schema: _Raw, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    if longest is not None and len(value) > longest:
        errors.append(too_long(path, longest))
    elif shortest is not None and len(value) < shortest:
        errors.append(invalid(path, value, f"{path} in body should be at least {shortest} chars long"))
    elif schema.get("pattern") and not compile_pattern(schema["pattern"]).search(value):
        pattern = schema["pattern"]
        errors.append(invalid(path, value, f"{path} in body should match '{pattern}'"))
    check = FORMATS.get(schema.get("format", ""))
    if check is not None and not check(value):
        errors.append(type_invalid(path, value, f"{path} in body must be of type {schema['format']}: {quote(value)}"))
    return errors


def _number(value: int | float, schema: _Raw, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    small = isinstance(value, int) and -_MAX_INT32 - 1 <= value <= _MAX_INT32
    if schema.get("format") == "int32" and schema.get("type") == "integer" and not small:
        detail = f"Checked value must be of type integer with format int32 in {path}"
        errors.append(invalid(NO_PATH, "", detail))
    factor = schema.get("multipleOf")
    if factor is not None:
        errors += _multiple_of(value, factor, path)
    most, least = schema.get("maximum"), schema.get("minimum")
    if most is not None:
        if schema.get("exclusiveMaximum") and value >= most:
            errors.append(invalid(path, value, f"{path} in body should be less than {_format_number(most)}"))
        elif value > most:
            errors.append(
                invalid(path, value, f"{path} in body should be less than or equal to {_format_number(most)}")
            )
    if least is not None:
        if schema.get("exclusiveMinimum") and value <= least:
            errors.append(invalid(path, value, f"{path} in body should be greater than {_format_number(least)}"))
        elif value < least:
            detail = f"{path} in body should be greater than or equal to {_format_number(least)}"
            errors.append(invalid(path, value, detail))
    return errors


def _multiple_of(value: int | float, factor: int | float, path: str) -> list[FieldError]:
    if factor <= 0 or (isinstance(value, int) and int(factor) <= 0):
        # Upstream truncates the factor to an integer for integer values.
        shown = int(factor) if isinstance(value, int) else factor
        return [invalid(path, shown, f"factor MultipleOf declared for {path} must be positive: {shown}")]
    quotient = value / factor
    if quotient != int(quotient):
        return [invalid(path, value, f"{path} in body should be a multiple of {_format_number(factor)}")]
    return []


def _format_number(number: int | float) -> str:
    return str(int(number)) if number == int(number) else str(number)


def _list(value: list[Any], schema: _Raw, path: str, old: Any) -> list[FieldError]:
    errors: list[FieldError] = []
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            errors += validate_value(item, items, f"{path}[{index}]", _old_item(item, schema, old))
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None and len(value) < least:
        errors.append(invalid(path, len(value), f"{path} in body should have at least {least} items"))
    if most is not None and len(value) > most:
        errors.append(too_many(path, len(value), most))
    return errors


def _old_item(item: Any, schema: _Raw, old: Any) -> Any:
    """Return the item with the same keys in the old list; MISSING unless the list is of list-type map."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if not isinstance(old, list) or not keys or not isinstance(item, dict):
        return MISSING
    for other in old:
        if isinstance(other, dict) and all(other.get(key) == item.get(key) for key in keys):
            return other
    return MISSING


def _object(value: dict[str, Any], schema: _Raw, path: str, old: Any) -> list[FieldError]:
    errors: list[FieldError] = []
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is not None and len(value) < least:
        errors.append(invalid(path, len(value), f"{path} in body should have at least {least} properties"))
    if most is not None and len(value) > most:
        errors.append(too_many(path, len(value), most))
    errors += [required(_child_path(path, name)) for name in schema.get("required", ()) if name not in value]
    before = old if isinstance(old, dict) else {}
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    found: dict[str, list[FieldError]] = {}
    for name, item in value.items():
        below = properties.get(name, additional)
        if isinstance(below, dict):
            wrong = validate_value(item, below, _child_path(path, name), before.get(name, MISSING))
            if wrong:
                found[name] = wrong
    for name in sorted(found):
        errors += found[name]
    return errors


def _child_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def validate_extensions(value: Any, schema: _Raw, path: str, old: Any = MISSING) -> list[FieldError]:
    """Check Kubernetes' extensions of JSON schemas: unique items, embedded resources, rules in CEL."""
    if old is not MISSING and _equal_values(value, old):
        return []
    errors: list[FieldError] = []
    if isinstance(value, list):
        errors += _unique_items(value, schema, path)
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                errors += validate_extensions(item, items, f"{path}[{index}]", _old_item(item, schema, old))
    elif isinstance(value, dict):
        if schema.get("x-kubernetes-embedded-resource"):
            errors += [required(_child_path(path, key)) for key in ("apiVersion", "kind") if not value.get(key)]
        before = old if isinstance(old, dict) else {}
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
        for name, item in sorted(value.items()):
            below = properties.get(name, additional)
            if isinstance(below, dict):
                errors += validate_extensions(item, below, _child_path(path, name), before.get(name, MISSING))
    errors += broken_rules(
        value, schema, path, old, root=not path or bool(schema.get("x-kubernetes-embedded-resource"))
    )
    return errors


_EXTENSIONS: Final = ("x-kubernetes-list-type", "x-kubernetes-embedded-resource", "x-kubernetes-validations")


def is_extended(schema: Any) -> bool:
    """Return whether `validate_extensions` can find errors with a schema.

    A property with such a name counts as well.
    """
    if isinstance(schema, list):
        return any(map(is_extended, schema))
    if not isinstance(schema, Mapping):
        return False
    return any(schema.get(name) for name in _EXTENSIONS) or any(map(is_extended, schema.values()))


def _unique_items(value: list[Any], schema: _Raw, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("set", "map"):
        return errors
    seen: set[str] = set()
    for index, item in enumerate(value):
        key = item
        if kind == "map":
            if not isinstance(item, dict):
                detail = "must be an object for an array of list-type map"
                return [*errors, invalid(f"{path}[{index}]", item, detail)]
            key = {name: item[name] for name in schema.get("x-kubernetes-list-map-keys", ()) if name in item}
        text = _json(key)
        if text in seen:
            errors.append(duplicate(f"{path}[{index}]", key))
        seen.add(text)
    return errors
