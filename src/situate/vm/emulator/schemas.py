"""Parts of the schemas of VMs and their migrations: structural schemas of OpenAPI v3."""

from __future__ import annotations

from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
INT32: Schema = {"type": "integer", "format": "int32"}
INT64: Schema = {"type": "integer", "format": "int64"}
TIME: Schema = {"type": "string", "format": "date-time"}
STRINGS: Schema = {"type": "object", "additionalProperties": STRING}
ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
QUANTITY: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
    "pattern": r"^[+-]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
    "maxLength": 32,
}
MILLI_CPU: Schema = {**QUANTITY, "pattern": r"^[0-9]+((\.[0-9]*)?|m)$"}


def revision() -> Schema:
    numbered = with_required(mapping(value=INT64, flags=INT64), "value", "flags")
    return with_required(mapping(revision=numbered, updatedAt=TIME), "revision", "updatedAt")


def conditions() -> Schema:
    condition = mapping(
        type=STRING,
        status=STRING,
        reason=STRING,
        message=STRING,
        lastTransitionTime=TIME,
        observedGeneration=INT64,
    )
    items = with_required(condition, "type", "status")
    return {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}


def amounts() -> Schema:
    return {"type": "object", "maxProperties": 32, "additionalProperties": QUANTITY}


def immutable_once_set(name: str) -> Schema:
    same = f"!has(oldSelf.{name}) || (has(self.{name}) && self.{name} == oldSelf.{name})"
    return rule(same, f"{name} is immutable after it is set")


def rule(expression: str, message: str) -> Schema:
    return {"rule": expression, "message": message}


def mapping(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def array_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def with_required(schema: Schema, *fields: str) -> Schema:
    return {**schema, "required": list(fields)}


def preserve_unknown_fields(schema: Schema) -> Schema:
    """Preserve unknown fields."""
    return {**schema, "x-kubernetes-preserve-unknown-fields": True}


def with_default(schema: Schema, default: str | int | bool) -> Schema:
    return {**schema, "default": default}
