"""Validate the schema of a custom resource: it must be structural and supported by this server.

After `apiextensions-apiserver/pkg/apiserver/schema/validation.go` and the schema part of
`pkg/apis/apiextensions/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from situate.cluster.errors.field_errors import FieldError, forbidden, invalid, not_supported, required
from situate.cluster.kinds.structural.patterns import PatternError, compile_pattern
from situate.cluster.kinds.structural.rules import validate_rules
from situate.cluster.kinds.structural.values import validate_extensions, validate_value

_Map = Mapping[str, Any]
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_JUNCTORS: Final = ("allOf", "anyOf", "oneOf")
_NOT_IN_JUNCTORS: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def validate_schema(schema: _Map, path: str, *, status_subresource: bool) -> list[FieldError]:
    """Validate a version's openAPIV3Schema."""
    errors: list[FieldError] = []
    if schema.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    if status_subresource and schema.get("type") not in (None, "", "object"):
        detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        errors.append(invalid(f"{path}.type", schema["type"], detail))
    errors += _syntax(schema, path)
    if not errors:
        errors += _structure(schema, path, "root")
    errors += validate_rules(schema, path, typed=not errors)
    if not errors:
        errors += _defaults(schema, path)
    return errors


def _syntax(schema: _Map, path: str) -> list[FieldError]:
    """Check for keywords that no schema may use, and check Kubernetes' own extensions."""
    errors = _list_extensions(schema, path) + _map_extensions(schema, path)
    kind = schema.get("type", "")
    if kind and kind not in _TYPES:
        errors.append(not_supported(f"{path}.type", kind, _TYPES))
    errors += [forbidden(f"{path}.{key}", f"{key} is not supported") for key in _UNSUPPORTED if key in schema]
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(f"{path}.uniqueItems", detail))
    if isinstance(schema.get("items"), list):
        errors.append(forbidden(f"{path}.items", "items must be a schema object and not an array"))
    if schema.get("properties") and schema.get("additionalProperties") not in (None, False):
        detail = "additionalProperties and properties are mutual exclusive"
        errors.append(forbidden(f"{path}.additionalProperties", detail))
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        errors.append(invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined"))
    for below, here in _children(schema, path):
        errors += _syntax(below, here)
    return errors


def _children(schema: _Map, path: str) -> list[tuple[_Map, str]]:
    found: list[tuple[_Map, str]] = []
    found += [(below, f"{path}.properties[{name}]") for name, below in sorted(schema.get("properties", {}).items())]
    if isinstance(schema.get("additionalProperties"), dict):
        found.append((schema["additionalProperties"], f"{path}.additionalProperties"))
    if isinstance(schema.get("items"), dict):
        found.append((schema["items"], f"{path}.items"))
    for key in _JUNCTORS:
        found += [(below, f"{path}.{key}[{index}]") for index, below in enumerate(schema.get(key, ()))]
    if isinstance(schema.get("not"), dict):
        found.append((schema["not"], f"{path}.not"))
    return found


def _map_extensions(schema: _Map, path: str) -> list[FieldError]:
    kind = schema.get("x-kubernetes-map-type")
    if kind is None:
        return []
    errors = _wrong_type(schema, path, "object", "x-kubernetes-map-type is specified")
    if kind not in ("atomic", "granular"):
        errors.append(not_supported(f"{path}.x-kubernetes-map-type", kind, ("atomic", "granular")))
    return errors


def _wrong_type(schema: _Map, path: str, wanted: str, reason: str) -> list[FieldError]:
    """Check that the schema has the type that another keyword needs."""
    kind, detail = schema.get("type", ""), f"must be {wanted} if {reason}"
    if kind == wanted:
        return []
    return [invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)]


def _list_extensions(schema: _Map, path: str) -> list[FieldError]:
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    errors: list[FieldError] = []
    where = f"{path}.x-kubernetes-list-map-keys"
    if kind is not None:
        errors += _wrong_type(schema, path, "array", "x-kubernetes-list-type is specified")
    if kind is not None and kind not in ("atomic", "set", "map"):
        errors.append(not_supported(f"{path}.x-kubernetes-list-type", kind, ("atomic", "set", "map")))
    if keys and kind != "map":
        here, detail = f"{path}.x-kubernetes-list-type", "must be map if x-kubernetes-list-map-keys is non-empty"
        errors.append(required(here, detail) if kind is None else invalid(here, kind, detail))
    items = schema.get("items")
    if kind in ("set", "map") and isinstance(items, dict) and items.get("nullable"):
        errors.append(forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {kind}"))
    if kind == "set" and isinstance(items, dict) and items.get("type") in ("object", "array"):
        atomic = "x-kubernetes-map-type" if items["type"] == "object" else "x-kubernetes-list-type"
        if items.get(atomic) != "atomic" and not (items["type"] == "array" and atomic not in items):
            detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
            errors.append(invalid(f"{path}.items.{atomic}", items.get(atomic), detail))
    if kind == "map":
        if not keys:
            errors.append(required(where, "must not be empty if x-kubernetes-list-type is map"))
        if items is None:
            errors.append(required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map"))
        elif isinstance(items, dict):
            errors += _keyed_items(items, keys, path)
    return errors


def _keyed_items(items: _Map, keys: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    where = f"{path}.x-kubernetes-list-map-keys"
    if items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        errors.append(invalid(f"{path}.items.type", items.get("type", ""), detail))
    properties = items.get("properties", {})
    for index, key in enumerate(keys):
        here = f"{path}.items.properties[{key}]"
        if key not in properties:
            errors.append(invalid(where, keys, "entries must all be names of item properties"))
            continue
        if properties[key].get("type") in ("array", "object"):
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            errors.append(invalid(f"{here}.type", items.get("type", ""), detail))
        if key in keys[:index]:
            errors.append(invalid(where, keys, "must not contain duplicate entries"))
        if "default" not in properties[key] and key not in items.get("required", ()):
            detail = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            )
            errors.append(required(f"{here}.default", detail))
        if properties[key].get("nullable"):
            detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            errors.append(forbidden(f"{here}.nullable", detail))
    return errors


def _structure(schema: _Map, path: str, level: str) -> list[FieldError]:
    """Check that a schema is structural. `level` is its position: root, items or field."""
    errors: list[FieldError] = []
    # Errors of nested schemas come first, as in upstream's answers.
    for name, below in sorted(schema.get("properties", {}).items()):
        errors += _structure(below, f"{path}.properties[{name}]", "field")
    if isinstance(schema.get("additionalProperties"), dict):
        errors += _structure(schema["additionalProperties"], f"{path}.additionalProperties", "field")
    if isinstance(schema.get("items"), dict):
        errors += _structure(schema["items"], f"{path}.items", "items")
    kind = schema.get("type", "")
    if kind == "array" and "items" not in schema:
        errors.append(required(f"{path}.items", "must be specified"))
    if level == "root" and schema.get("additionalProperties") not in (None, False):
        errors.append(forbidden(f"{path}.additionalProperties", "must not be used at the root"))
    if schema.get("x-kubernetes-embedded-resource"):
        errors += _embedded_errors(schema, path)
    elif not kind and not schema.get("x-kubernetes-int-or-string") and not _allows_unknown(schema, level):
        where = {"root": "at the root", "items": "for specified array items", "field": "for specified object fields"}
        errors.append(required(f"{path}.type", f"must not be empty {where[level]}"))
    if level == "root" and kind not in ("", "object"):
        errors.append(invalid(f"{path}.type", kind, "must be object at the root"))
    if level == "root" or schema.get("x-kubernetes-embedded-resource"):
        errors += _implied_fields(schema, path)
    if schema.get("x-kubernetes-int-or-string"):
        for key in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(key):
                errors.append(invalid(f"{path}.{key}", True, "must be false if x-kubernetes-int-or-string is true"))
    errors += _pattern(schema, path)
    errors += _junctors(schema, path)
    return errors


def _allows_unknown(schema: _Map, level: str) -> bool:
    return level != "root" and bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _embedded_errors(schema: _Map, path: str) -> list[FieldError]:
    errors = _wrong_type(schema, path, "object", "x-kubernetes-embedded-resource is true")
    if schema.get("additionalProperties") not in (None, False):
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        errors.append(forbidden(f"{path}.additionalProperties", detail))
    if not schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("properties"):
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        errors.append(required(f"{path}.properties", detail))
    return errors


def _implied_fields(schema: _Map, path: str) -> list[FieldError]:
    """Check that apiVersion and kind are text and that metadata only restricts names."""
    errors: list[FieldError] = []
    properties = schema.get("properties", {})
    for key in ("kind", "apiVersion"):
        kind = properties.get(key, {}).get("type", "string")
        if kind != "string":
            errors.append(invalid(f"{path}.properties[{key}].type", kind, "must be string"))
    metadata = properties.get("metadata")
    if metadata is not None:
        here = f"{path}.properties[metadata]"
        if metadata.get("type", "object") != "object":
            errors.append(invalid(f"{here}.type", metadata["type"], "must be object"))
        elif metadata.keys() - {"type", "description", "title", "properties"} or (
            metadata.get("properties", {}).keys() - {"name", "generateName"}
        ):
            detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            errors.append(forbidden(here, detail))
    return errors


def _pattern(schema: _Map, path: str) -> list[FieldError]:
    if not schema.get("pattern"):
        return []
    try:
        compile_pattern(schema["pattern"])
    except PatternError as error:
        detail = f"must be a valid regular expression, but isn't: {error}"
        return [invalid(f"{path}.pattern", schema["pattern"], detail)]
    return []


def _junctors(schema: _Map, path: str) -> list[FieldError]:
    """Check allOf, anyOf, oneOf and not. They may only restrict values; fields are declared outside of them."""
    errors: list[FieldError] = []
    branches = [
        (below, f"{path}.{key}[{index}]") for key in _JUNCTORS for index, below in enumerate(schema.get(key, ()))
    ]
    if isinstance(schema.get("not"), dict):
        branches.append((schema["not"], f"{path}.not"))
    for below, here in branches:
        errors += _junctor_branch_errors(below, here, bool(schema.get("x-kubernetes-int-or-string")))
    return errors


def _junctor_branch_errors(schema: _Map, path: str, int_or_string: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, detail in _NOT_IN_JUNCTORS:
        if schema.get(key) not in (None, "", False, [], {}) and not (key == "type" and int_or_string):
            errors.append(forbidden(f"{path}.{key}", detail))
    errors += _pattern(schema, path) + _junctors(schema, path)
    for name, below in sorted(schema.get("properties", {}).items()):
        errors += _junctor_branch_errors(below, f"{path}.properties[{name}]", False)
    if isinstance(schema.get("items"), dict):
        errors += _junctor_branch_errors(schema["items"], f"{path}.items", False)
    return errors


def _defaults(schema: _Map, path: str) -> list[FieldError]:
    """Check that each default is valid for its schema and has no fields that pruning would drop."""
    errors: list[FieldError] = []
    if "default" in schema:
        value, here = schema["default"], f"{path}.default"
        found = validate_value(value, schema, "") + validate_extensions(value, schema, "")
        errors += [FieldError(error.kind, _child_path(here, error.field), error.body) for error in found]
        if not found and _has_unknown(value, schema):
            errors.append(invalid(here, value, "must not have unknown fields"))
    for below, where in _children(schema, path):
        errors += _defaults(below, where)
    return errors


def _child_path(path: str, field: str) -> str:
    return f"{path}.{field}" if field and field != "<nil>" else path


def _has_unknown(value: Any, schema: _Map) -> bool:
    if isinstance(value, list):
        items = schema.get("items")
        return isinstance(items, dict) and any(_has_unknown(item, items) for item in value)
    if not isinstance(value, dict):
        return False
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    open_ = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or additional is True
    for name, item in value.items():
        below = properties.get(name, additional)
        if isinstance(below, dict):
            if _has_unknown(item, below):
                return True
        elif not open_:
            return True
    return False


def refers_to_scalar(schema: _Map, path: str) -> bool | None:
    """Return whether a path such as `.spec.color` ends at a text, integer or boolean; None if it matches no field."""
    node: Any = schema
    for step in path.removeprefix(".").split("."):
        node = node.get("properties", {}).get(step) if isinstance(node, dict) else None
        if node is None:
            return None
    return node.get("type") in ("string", "boolean", "integer")
