"""Decode request bodies in Kubernetes' protobuf, which Go clients prefer, to the equivalent JSON.

Only decoding is supported, and only built-in kinds. Answers are always JSON, which every client accepts.
`tests/controlplane/dump_protobuf.py` writes the field numbers in the data file next to this module. The envelope is
that of apimachinery pkg/runtime/serializer/protobuf.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeAlias

import msgspec

from situate.cluster.errors.field_errors import Refused, bad_request
from situate.cluster.errors.times import micro_timestamp, timestamp

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\x00"
_UNKNOWN: Final = "k8s.io.apimachinery.pkg.runtime.Unknown"
_META: Final = "k8s.io.apimachinery.pkg.apis.meta.v1."
_PACKAGES: Final[Mapping[str, str]] = {
    "": "core",
    "rbac.authorization.k8s.io": "rbac",
    "admissionregistration.k8s.io": "admissionregistration",
    "authentication.k8s.io": "authentication",
    "authorization.k8s.io": "authorization",
    "coordination.k8s.io": "coordination",
    "discovery.k8s.io": "discovery",
    "events.k8s.io": "events",
    "networking.k8s.io": "networking",
    "node.k8s.io": "node",
    "scheduling.k8s.io": "scheduling",
    "storage.k8s.io": "storage",
}
"""Package by group, where the two names differ."""

Fields: TypeAlias = Mapping[int, tuple[str, str, str]]


class _MalformedError(Exception):
    """The bytes are not a valid message."""


def to_json(body: bytes) -> bytes | Refused:
    """Return the body as JSON, or the 400 for a body that cannot be decoded or has an unknown kind."""
    if not body.startswith(_MAGIC):
        return bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        envelope = _read_message(memoryview(body)[len(_MAGIC) :], _UNKNOWN)
        kind = {name: envelope.get(name, "") for name in ("apiVersion", "kind")}
        name = _message_name(kind["apiVersion"], kind["kind"])
        if name not in _messages():
            return bad_request(
                f"situate's embedded API server does not read {kind['kind'] or 'untyped'} in "
                f"{kind['apiVersion'] or 'no version'} from protobuf; send JSON"
            )
        raw = base64.b64decode(envelope.get("raw", ""))
        return msgspec.json.encode({**kind, **_read_message(memoryview(raw), name)})
    except (_MalformedError, IndexError, UnicodeDecodeError, ValueError) as error:
        return bad_request(f"the protobuf body cannot be read: {error}")


def _message_name(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    if kind.endswith("Options") and f"{_META}{kind}" in _messages():
        return f"{_META}{kind}"
    return f"k8s.io.api.{_PACKAGES.get(group, group)}.{version}.{kind}"


@cache
def _messages() -> Mapping[str, Fields]:
    raw = gzip.decompress(files("situate.cluster.apiserver.protobuf").joinpath("messages.json.gz").read_bytes())
    return msgspec.json.decode(raw, type=dict[str, dict[int, tuple[str, str, str]]])


def _read_message(data: memoryview, name: str) -> dict[str, Any]:
    fields = _messages()[name]
    out: dict[str, Any] = {}
    for number, wire, value in _wire_fields(data):
        field = fields.get(number)
        if field is None:
            continue
        label, kind, how = field
        shown = _to_json_value(value, kind)
        if how == "map":
            entry = _read_map_entry(value, kind)
            out.setdefault(label, {})[entry[0]] = entry[1]
        elif how == "repeated":
            if wire == 2 and kind in _PACKABLE_TYPES:
                out.setdefault(label, []).extend(_unpack(value, kind))
            else:
                out.setdefault(label, []).append(shown)
        elif how == "inline":
            out.update(shown)
        elif shown is not None:
            out[label] = shown
    return out


def _wire_fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and value of each field of a message."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        value, at = _read_wire_value(data, at, key & 7)
        yield key >> 3, key & 7, value


def _read_map_entry(value: Any, kind: str) -> tuple[str, Any]:
    key, shown = "", _to_json_value(memoryview(b""), kind) if kind not in _PACKABLE_TYPES else 0
    for number, _, part in _wire_fields(_require_bytes(value)):
        if number == 1:
            key = str(_require_bytes(part), "utf-8")
        else:
            shown = _to_json_value(part, kind)
    return key, shown


def _read_wire_value(data: memoryview, at: int, wire: int) -> tuple[Any, int]:
    if wire == 0:
        return _read_varint(data, at)
    size = {1: 8, 5: 4}.get(wire)
    if wire == 2:
        size, at = _read_varint(data, at)
    if size is None:
        raise _MalformedError(f"wire type {wire}")
    if at + size > len(data):
        raise _MalformedError("it ends too early")
    return data[at : at + size], at + size


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise _MalformedError("a number is too long")


def _require_bytes(value: Any) -> memoryview:
    if not isinstance(value, memoryview):
        raise _MalformedError("a number stands where bytes should be")
    return value


def _to_signed(value: Any, bits: int) -> int:
    if not isinstance(value, int):
        raise _MalformedError("bytes stand where a number should be")
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


_PACKABLE_TYPES: Final = frozenset({"int32", "int64", "uint32", "uint64", "bool"})


def _unpack(value: Any, kind: str) -> list[Any]:
    data, at, out = _require_bytes(value), 0, []
    while at < len(data):
        number, at = _read_varint(data, at)
        out.append(_to_json_value(number, kind))
    return out


def _to_json_value(value: Any, kind: str) -> Any:
    """Return one value as JSON; None if it is omitted."""
    special = _CONVERTERS.get(kind)
    return special(value) if special is not None else _read_message(_require_bytes(value), kind)


def _time(micro: bool) -> Callable[[Any], str | None]:
    def shown(value: Any) -> str | None:
        parts = _read_fields(value)
        if not parts:
            return None
        seconds = _to_signed(parts.get(1, 0), 64)
        return micro_timestamp(seconds + parts.get(2, 0) / 1e9) if micro else timestamp(seconds)

    return shown


def _read_fields(value: Any) -> dict[int, Any]:
    return {number: part for number, _, part in _wire_fields(_require_bytes(value))}


def _quantity(value: Any) -> str:
    return str(_read_fields(value).get(1, b"0"), "utf-8")


def _int_or_string(value: Any) -> int | str:
    parts = _read_fields(value)
    if parts.get(1, 0) == 1:
        return str(parts.get(3, b""), "utf-8")
    return _to_signed(parts.get(2, 0), 32)


def _raw(value: Any) -> Any:
    raw = bytes(_read_fields(value).get(1, b""))
    return msgspec.json.decode(raw) if raw else None


def _items(value: Any) -> list[str]:
    return [str(_require_bytes(part), "utf-8") for _, _, part in _wire_fields(_require_bytes(value))]


_CONVERTERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "string": lambda value: str(_require_bytes(value), "utf-8"),
    "bytes": lambda value: base64.b64encode(_require_bytes(value)).decode(),
    "bool": lambda value: _to_signed(value, 64) != 0,
    "int32": lambda value: _to_signed(value, 32),
    "int64": lambda value: _to_signed(value, 64),
    "uint32": lambda value: _to_signed(value, 64),
    "uint64": lambda value: _to_signed(value, 64),
    f"{_META}Time": _time(micro=False),
    f"{_META}MicroTime": _time(micro=True),
    f"{_META}FieldsV1": _raw,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _raw,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": _quantity,
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "k8s.io.api.authentication.v1.ExtraValue": _items,
    "k8s.io.api.authorization.v1.ExtraValue": _items,
}
