"""Decode a request's body to an object of a built-in kind, as Go's decoder does.

Wrong types are refused. Unknown and repeated fields are reported as strictly as the request demands. Nulls and empty
optional values are dropped, and quantities and times are rewritten in canonical form. `validation` checks the values.
After `sigs.k8s.io/json` and `apimachinery/pkg/runtime/serializer`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, Final

import msgspec

from situate.cluster.errors.field_errors import Refused, bad_request
from situate.cluster.errors.go_text import json_type, quote
from situate.cluster.kinds.schemas import leaves
from situate.cluster.kinds.schemas.catalog import JSON_SCHEMA, component_schema
from situate.cluster.kinds.schemas.nodes import Schema

Path = tuple[Any, ...]
"""(parent path, step, embedded path): a step is a field's name, or an index in a list; () at the root."""
_DROP: Final = object()


class Strictness(Enum):
    """The query parameter fieldValidation."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


class DecodedObject(msgspec.Struct, frozen=True):
    """A decoded object and the warnings for its author."""

    object: dict[str, Any]
    warnings: tuple[str, ...] = ()


class WrongTypeError(Exception):
    """The first value that Go cannot decode. The text follows `cannot be handled as a …: `."""


Check = Callable[[Any, Path, list[str]], Any]
"""Maps (value, path, unknown fields so far) to the decoded value, or to _DROP for a value that is omitted."""


def decode_object(
    obj: Any, schema: Schema, strictness: Strictness = Strictness.WARN, duplicates: tuple[str, ...] = ()
) -> DecodedObject | Refused:
    """Decode an object that names its own apiVersion and kind; `duplicates` are from `bodies.duplicate_fields`."""
    problems = [f"duplicate field {quote(path)}" for path in duplicates]
    try:
        decoded = struct_decoder(schema)(obj, (), problems)
    except (WrongTypeError, leaves.LeafError) as error:
        return cannot_handle(obj, str(error))
    return with_problems(obj, decoded, problems, strictness)


def with_problems(
    obj: dict[str, Any], decoded: dict[str, Any], problems: list[str], strictness: Strictness
) -> DecodedObject | Refused:
    """Return the decoded object. Unknown and repeated fields are warnings, or the 400 if the request is strict."""
    if not problems or strictness is Strictness.IGNORE:
        return DecodedObject(decoded)
    if strictness is Strictness.STRICT:
        return cannot_handle(obj, "strict decoding error: " + ", ".join(problems))
    return DecodedObject(decoded, tuple(problems))


def cannot_handle(obj: dict[str, Any], problem: str) -> Refused:
    """Return the 400 for a body of the right kind that cannot be decoded."""
    kind, version = obj.get("kind", ""), str(obj.get("apiVersion", "")).rpartition("/")[2]
    return bad_request(f"{kind} in version {quote(version)} cannot be handled as a {kind}: {problem}")


def format_path(path: Path) -> str:
    """Return the path as text, such as `spec.containers[0].image`."""
    steps: list[str] = []
    while path:
        path, step, _ = path
        steps.append(f"[{step}]" if type(step) is int else f".{step}")
    return "".join(reversed(steps)).lstrip(".")


def _go_path(path: Path) -> str:
    steps: list[str] = []
    while path:
        path, step, embedded = path
        if type(step) is not int and embedded is not None:
            steps.append(f"{embedded}{step}")
    return ".".join(reversed(steps))


def _mismatch(value: Any, go_type: str, owner: str, path: Path) -> WrongTypeError:
    found = json_type(value)
    if go_type.startswith(("int", "uint")) and found == "number":
        found = f"number {value}"
    where = f"struct field {owner}.{_go_path(path)}" if path else "value"
    return WrongTypeError(f"json: cannot unmarshal {found} into Go {where} of type {go_type}")


@cache
def struct_decoder(schema: Schema) -> Check:
    """Return the decoder of a struct, compiled at first use."""
    return _Struct(schema).check


class _Struct:
    """Decoder of one struct. The checks of its fields are found by name."""

    def __init__(self, schema: Schema) -> None:
        self._name = schema.go_name or schema.component.rpartition(".")[2]
        self._schema = schema
        self._fields: dict[str, tuple[Check, str]] = {}
        self._always: tuple[tuple[str, Callable[[], Any]], ...] = ()
        self._compiled = False

    def _compile(self) -> None:
        """Compile the checks of the fields. This happens at first use because a struct may contain itself."""
        always: list[tuple[str, Callable[[], Any]]] = []
        for name, field in self._schema.properties.items():
            embedded = "" if field.go is None else field.go.path
            self._fields[name] = (_field_check(field, self._name), embedded)
            zero = _zero_factory(field)
            if zero is not None:
                always.append((name, zero))
        self._always = tuple(always)
        self._compiled = True

    def check(self, value: Any, path: Path, problems: list[str]) -> Any:
        if type(value) is not dict:
            raise WrongTypeError(f"json: cannot unmarshal {json_type(value)} into Go value of type v1.{self._name}")
        if not self._compiled:
            self._compile()
        fields = self._fields
        out: dict[str, Any] = {}
        for key, item in value.items():
            found = fields.get(key)
            if found is None:
                problems.append(f"unknown field {quote(format_path((path, key, '')))}")
            elif item is not None:
                decoded = found[0](item, (path, key, found[1]), problems)
                if decoded is not _DROP:
                    out[key] = decoded
        for key, zero in self._always:
            if key not in out:
                out[key] = zero()
        return out

    def zero(self) -> dict[str, Any]:
        """Return the struct as Go encodes it with no field set."""
        if not self._compiled:
            self._compile()
        return {key: zero() for key, zero in self._always}


@cache
def _struct_of(schema: Schema) -> _Struct:
    return _Struct(schema)


def _zero_factory(field: Schema) -> Callable[[], Any] | None:
    """Return a factory for the value that Go encodes for an unset field.

    None if Go encodes nothing, or null for an absent list.
    """
    go = field.go
    if go is None or go.pointer or go.omit_zero:
        return None
    if go.kind == "struct":
        return _struct_of(field).zero if field.properties else None
    if go.omit_empty:
        return None
    return {"string": str, "bool": bool, "int32": int, "int64": int}.get(go.kind)


def _field_check(field: Schema, owner: str) -> Check:
    go = field.go
    keep_empty = go is None or go.pointer or not go.omit_empty
    return _value_check(field, owner, go.type if go else "", keep_empty)


def _value_check(schema: Schema, owner: str, go_type: str, keep_empty: bool) -> Check:
    if schema.int_or_string:
        return _int_or_string_check(owner)
    if schema.format in ("date-time", "micro-time"):
        return _text_check(leaves.decode_time if schema.format == "date-time" else leaves.decode_micro_time, owner)
    if schema.format == "quantity":
        return _check_quantity
    if schema.format in ("schema-or-array", "schema-or-bool"):
        return _json_schema_check(owner)
    if schema.preserve_unknown:
        return _accept_any
    if schema.format == "byte":
        return _text_check(leaves.decode_base64, owner)
    if schema.type == "string":
        return _string_check(owner, go_type or "string", keep_empty)
    if schema.type == "boolean":
        return _boolean_check(owner, go_type or "bool", keep_empty)
    if schema.type == "integer":
        return _integer_check(owner, go_type or schema.format or "int64", schema.format, keep_empty)
    if schema.type == "number":
        return _number_check(owner, go_type or "float64", keep_empty)
    if schema.type == "array" and schema.items is not None:
        return _list_check(schema.items, owner, go_type, keep_empty)
    if schema.additional is not None:
        return _map_check(schema.additional, owner, go_type, keep_empty)
    return _struct_check(schema, owner, go_type)


def _check_quantity(value: Any, _path: Path, _problems: list[str]) -> Any:
    return leaves.decode_quantity(value)


def _json_schema_check(owner: str) -> Check:
    """Build the check of a JSON schema inside another one, or of the list or boolean allowed in its place."""

    def check(value: Any, path: Path, problems: list[str]) -> Any:
        if type(value) is bool:
            return value
        if type(value) is list:
            return [check(item, (path, index, None), problems) for index, item in enumerate(value)]
        if type(value) is dict:
            return struct_decoder(component_schema(JSON_SCHEMA))(value, path, problems)
        raise _mismatch(value, "v1.JSONSchemaProps", owner, path)

    return check


def _accept_any(value: Any, _path: Path, _problems: list[str]) -> Any:
    return value


def _string_check(owner: str, go_type: str, keep_empty: bool) -> Check:
    def check(value: Any, path: Path, _: list[str]) -> Any:
        if type(value) is not str:
            raise _mismatch(value, go_type, owner, path)
        return value if value or keep_empty else _DROP

    return check


def _text_check(parse: Callable[[str], str], owner: str) -> Check:
    def check(value: Any, path: Path, _: list[str]) -> Any:
        if type(value) is not str:
            raise _mismatch(value, "string", owner, path)
        return parse(value)

    return check


def _boolean_check(owner: str, go_type: str, keep_empty: bool) -> Check:
    def check(value: Any, path: Path, _: list[str]) -> Any:
        if type(value) is not bool:
            raise _mismatch(value, go_type, owner, path)
        return value if value or keep_empty else _DROP

    return check


def _integer_check(owner: str, go_type: str, width: str, keep_empty: bool) -> Check:
    limit = 1 << (31 if width == "int32" else 63)

    def check(value: Any, path: Path, _: list[str]) -> Any:
        if type(value) is not int or not -limit <= value < limit:
            raise _mismatch(value, go_type, owner, path)
        return value if value or keep_empty else _DROP

    return check


def _number_check(owner: str, go_type: str, keep_empty: bool) -> Check:
    def check(value: Any, path: Path, _: list[str]) -> Any:
        if type(value) is not int and type(value) is not float:
            raise _mismatch(value, go_type, owner, path)
        return value if value or keep_empty else _DROP

    return check


def _int_or_string_check(owner: str) -> Check:
    def check(value: Any, path: Path, _: list[str]) -> Any:
        if type(value) is str or (type(value) is int and -(1 << 31) <= value < 1 << 31):
            return value
        raise _mismatch(value, "int32", owner, path)

    return check


def _list_check(items: Schema, owner: str, go_type: str, keep_empty: bool) -> Check:
    element_type = go_type.removeprefix("[]").removeprefix("*")
    check_item = _value_check(items, owner, element_type, True)
    empty = _null_element_factory(items)

    def check(value: Any, path: Path, problems: list[str]) -> Any:
        if type(value) is not list:
            raise _mismatch(value, go_type, owner, path)
        if not value and not keep_empty:
            return _DROP
        return [
            empty() if item is None else check_item(item, (path, index, None), problems)
            for index, item in enumerate(value)
        ]

    return check


def _map_check(values: Schema, owner: str, go_type: str, keep_empty: bool) -> Check:
    element_type = go_type.partition("]")[2].removeprefix("*")
    check_value = _value_check(values, owner, element_type, True)
    empty = _null_element_factory(values)

    def check(value: Any, path: Path, problems: list[str]) -> Any:
        if type(value) is not dict:
            raise _mismatch(value, go_type, owner, path)
        if not value and not keep_empty:
            return _DROP
        return {
            key: empty() if item is None else check_value(item, (path, key, None), problems)
            for key, item in value.items()
        }

    return check


def _null_element_factory(schema: Schema) -> Callable[[], Any]:
    """Return a factory for the value that Go decodes from a null inside a list or a map."""
    if schema.properties:
        return _struct_of(schema).zero
    if schema.format == "quantity":
        return lambda: "0"
    return {"string": str, "integer": int, "boolean": bool, "array": list}.get(schema.type, dict)


def _struct_check(schema: Schema, owner: str, go_type: str) -> Check:
    inner = _struct_of(schema).check

    def check(value: Any, path: Path, problems: list[str]) -> Any:
        if type(value) is not dict:
            raise _mismatch(value, go_type, owner, path)
        return inner(value, path, problems)

    return check
