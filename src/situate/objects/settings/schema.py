"""JSON Schema (draft 2020-12) of settings types, for editors and offline checks.

`msgspec.json.schema` cannot express that a duration is a text or a number, and accepts unknown keys. The schema refuses
everything that `situate.objects.settings.parse_section` refuses by type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import inspect as types

from situate.objects.settings.section import ALLOWED, FORM, describe
from situate.objects.values.durations import NANOSECONDS_FROM

_DURATION_TEXT = r"^[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)$"

_Schema = dict[str, Any]


def json_schema(kind: Any) -> dict[str, Any]:
    """Return the schema of one settings type, with every struct written in place: settings are not recursive."""
    return _schema(types.type_info(kind))


def document_schema(title: str, properties: Mapping[str, Any], required: Iterable[str] = ()) -> dict[str, Any]:
    """Return the schema of a whole file, from the types of its keys."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "type": "object",
        "properties": {name: json_schema(kind) for name, kind in properties.items()},
        "required": sorted(required),
        "additionalProperties": False,
    }


def _schema(info: types.Type) -> _Schema:
    match info:
        case types.Metadata():
            return _metadata_schema(info)
        case types.StructType():
            return _struct_schema(info)
        case types.UnionType():
            return {"anyOf": [_schema(each) for each in info.types]}
        case types.ListType() | types.VarTupleType() | types.SetType() | types.FrozenSetType():
            limits = {"minItems": info.min_length, "maxItems": info.max_length}
            return {"type": "array", "items": _schema(info.item_type)} | _without_none(limits)
        case types.DictType():
            return {"type": "object", "additionalProperties": _schema(info.value_type)}
        case types.LiteralType():
            return {"enum": list(info.values)}
        case types.EnumType():
            return {"enum": [each.value for each in info.cls]}
        case _:
            return _scalar_schema(info)


def _metadata_schema(info: types.Metadata) -> _Schema:
    extra = info.extra or {}
    schema = _schema(info.type)
    if extra.get(FORM) == "duration":
        ceiling = {"exclusiveMaximum": NANOSECONDS_FROM}
        schema = {"anyOf": [{"type": "string", "pattern": _DURATION_TEXT}, schema | ceiling]}
    words = {"description": extra[ALLOWED]} if ALLOWED in extra else {}
    return schema | words | (info.extra_json_schema or {})


def _struct_schema(info: types.StructType) -> _Schema:
    properties: _Schema = {}
    for field in info.fields:
        schema = _schema(field.type)
        if not field.required:
            default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
            schema = schema | {"default": to_plain_data(default)}
            if not _takes_null(field.type):
                schema = {"anyOf": [schema, {"type": "null"}]} | {"default": schema["default"]}
        properties[field.encode_name] = schema
    return {
        "type": "object",
        "description": (info.cls.__doc__ or describe(info)).strip().splitlines()[0],
        "properties": properties,
        "required": [field.encode_name for field in info.fields if field.required],
        "additionalProperties": False,
    }


def to_plain_data(value: object) -> Any:
    """Return settings as plain data, in the form of a file."""
    return msgspec.to_builtins(value, enc_hook=_mapping)


def _mapping(value: object) -> object:
    """Convert an immutable mapping, such as the default of a selector's labels."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a setting")


def _takes_null(info: types.Type) -> bool:
    return isinstance(info, types.UnionType) and any(isinstance(each, types.NoneType) for each in info.types)


def _scalar_schema(info: types.Type) -> _Schema:
    limits: dict[str, object]
    match info:
        case types.IntType() | types.FloatType():
            limits = {"minimum": info.ge, "exclusiveMinimum": info.gt, "maximum": info.le, "exclusiveMaximum": info.lt}
            return {"type": "integer" if isinstance(info, types.IntType) else "number"} | _without_none(limits)
        case types.StrType():
            limits = {"minLength": info.min_length, "maxLength": info.max_length, "pattern": info.pattern}
            return {"type": "string"} | _without_none(limits)
        case types.BoolType():
            return {"type": "boolean"}
        case types.NoneType():
            return {"type": "null"}
        case _:
            return {}


def _without_none(limits: Mapping[str, object]) -> _Schema:
    return {name: limit for name, limit in limits.items() if limit is not None}
