"""Types of CEL: their names, their compatibility, and the signatures of functions.

After cel-go's `checker` and `common/stdlib`, and `k8s.io/apiserver/pkg/cel/library`. Only functions that
`cel.functions` or the evaluator implement have a signature here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final


@dataclass(frozen=True, slots=True)
class Type:
    """A type. Object types are identified by their name."""

    name: str
    parameters: tuple[Type, ...] = ()
    """Type parameters: the items of a list, keys and values of a map, the type that a `type` denotes."""
    fields: Mapping[str, Type] | None = field(default=None, compare=False)
    """Fields of an object; None for any other type."""

    def __str__(self) -> str:
        """Return the type's name in errors about operands."""
        return f"{self.name}({', '.join(str(each) for each in self.parameters)})" if self.parameters else self.name

    @property
    def result(self) -> str:
        """The type's name in errors about the value of a whole expression."""
        below = ", ".join(each.result for each in self.parameters)
        name = _LONG.get(self.name, self.name)
        return f"{name}({below})" if self.parameters else name


_LONG: Final = {
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}

DYN: Final = Type("dyn")
ERROR: Final = Type("!error!")
"""Type of an expression with a reported error. It fits everywhere."""
BOOL: Final = Type("bool")
INT: Final = Type("int")
STRING: Final = Type("string")
DOUBLE: Final = Type("double")
BYTES: Final = Type("bytes")
NULL: Final = Type("null")
TIMESTAMP: Final = Type("timestamp")
DURATION: Final = Type("duration")

_NEVER_NULL: Final = frozenset({"bool", "int", "uint", "double", "string", "bytes", "list", "map", "type"})


def list_of(items: Type) -> Type:
    return Type("list", (items,))


def map_of(keys: Type, values: Type) -> Type:
    return Type("map", (keys, values))


def type_of(of: Type) -> Type:
    return Type("type", (of,))


def object_type(name: str, fields: Mapping[str, Type]) -> Type:
    return Type(name, (), fields)


TYPE_NAMES: Final[Mapping[str, Type]] = {
    **{name: type_of(Type(name)) for name in ("int", "uint", "double", "string", "bytes", "bool", "null_type")},
    "list": type_of(list_of(DYN)),
    "map": type_of(map_of(DYN, DYN)),
    "type": type_of(Type("type")),
}
"""Names that denote types."""


@dataclass(frozen=True, slots=True)
class Signature:
    method: bool
    """True if the first argument is the receiver before the dot."""
    arguments: tuple[Type, ...]
    result: Type


def call_result_type(signatures: Sequence[Signature], arguments: Sequence[Type], *, method: bool) -> Type | None:
    """Return the type of a call's value.

    The type is dyn if several signatures with different results fit, and None if no signature fits.
    """
    found: Type | None = None
    for signature in signatures:
        if signature.method is not method or len(signature.arguments) != len(arguments):
            continue
        bound: dict[str, Type] = {}
        if all(
            _is_assignable(given, wanted, bound) for given, wanted in zip(arguments, signature.arguments, strict=True)
        ):
            result = _substitute(signature.result, bound)
            found = result if found in (None, result) else DYN
    return found


def _is_assignable(given: Type, wanted: Type, bound: dict[str, Type]) -> bool:
    """Return whether a value of one type is allowed where another is wanted. Type variables in `wanted` get bound."""
    if len(wanted.name) == 1:
        known = bound.get(wanted.name)
        if known is None:
            bound[wanted.name] = given
            return True
        if not (_is_assignable(given, known, {}) or _is_assignable(known, given, {})):
            return False
        if _open_part_count(known) < _open_part_count(given):
            bound[wanted.name] = given
        return True
    if DYN in (given, wanted) or ERROR in (given, wanted):
        return _bind_to_dyn(wanted, bound)
    if given == NULL or wanted == NULL:
        other = wanted if given == NULL else given
        return other.name not in _NEVER_NULL
    if given.name != wanted.name or len(given.parameters) != len(wanted.parameters):
        # Types of types are compared as values, not here.
        return given.name == wanted.name == "type"
    return given.name == "type" or all(
        _is_assignable(one, other, bound) for one, other in zip(given.parameters, wanted.parameters, strict=True)
    )


def _bind_to_dyn(wanted: Type, bound: dict[str, Type]) -> bool:
    for each in wanted.parameters:
        if len(each.name) == 1:
            bound.setdefault(each.name, DYN)
        _bind_to_dyn(each, bound)
    return True


def _open_part_count(of: Type) -> int:
    """Return how many parts of a type are open."""
    return int(of == DYN) + sum(_open_part_count(each) for each in of.parameters)


def _substitute(result: Type, bound: Mapping[str, Type]) -> Type:
    if len(result.name) == 1:
        return bound.get(result.name, DYN)
    return (
        Type(result.name, tuple(_substitute(each, bound) for each in result.parameters))
        if result.parameters
        else result
    )


_NUMBER_TYPES: Final = ("int", "uint", "double")
_ORDERED_TYPES: Final = ("bool", *_NUMBER_TYPES, "string", "bytes", "timestamp", "duration")
_COMPARISON_SIGNATURES: Final = " ".join(
    f"({one},{other}):bool"
    for one in _ORDERED_TYPES
    for other in _ORDERED_TYPES
    if one == other or (one in _NUMBER_TYPES and other in _NUMBER_TYPES)
)
_TIMESTAMP_PART_SIGNATURES: Final = "timestamp.():int timestamp.(string):int"
_TIME_PART_SIGNATURES: Final = f"{_TIMESTAMP_PART_SIGNATURES} duration.():int"
_SIZE_SIGNATURES: Final = " ".join(f"({each}):int {each}.():int" for each in ("string", "bytes", "list(A)", "map(A,B)"))
_SIGNATURE_TEXTS: Final[Mapping[str, str]] = {
    "_?_:_": "(bool,A,A):A",
    "!_": "(bool):bool",
    "-_": "(int):int (double):double",
    "_==_": "(A,A):bool",
    "_!=_": "(A,A):bool",
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _COMPARISON_SIGNATURES),
    "_+_": " ".join(f"({each},{each}):{each}" for each in (*_NUMBER_TYPES, "string", "bytes", "list(A)", "duration"))
    + " (timestamp,duration):timestamp (duration,timestamp):timestamp",
    "_-_": " ".join(f"({each},{each}):{each}" for each in (*_NUMBER_TYPES, "duration"))
    + " (timestamp,timestamp):duration (timestamp,duration):timestamp",
    **dict.fromkeys(("_*_", "_/_"), " ".join(f"({each},{each}):{each}" for each in _NUMBER_TYPES)),
    "_%_": "(int,int):int (uint,uint):uint",
    "_[_]": "(list(A),int):A (map(A,B),A):B",
    "@in": "(A,list(A)):bool (A,map(A,B)):bool",
    "size": _SIZE_SIGNATURES,
    "int": "(int):int (uint):int (double):int (string):int (timestamp):int (duration):int",
    "uint": "(uint):uint (int):uint (double):uint (string):uint",
    "double": "(double):double (int):double (uint):double (string):double",
    "string": " ".join(
        f"({each}):string" for each in ("string", "bool", "bytes", *_NUMBER_TYPES, "timestamp", "duration")
    ),
    "bytes": "(bytes):bytes (string):bytes",
    "bool": "(bool):bool (string):bool",
    "timestamp": "(timestamp):timestamp (int):timestamp (string):timestamp",
    "duration": "(duration):duration (int):duration (string):duration",
    "type": "(A):type(A)",
    "dyn": "(A):dyn",
    **dict.fromkeys(("contains", "startsWith", "endsWith"), "string.(string):bool"),
    "matches": "string.(string):bool (string,string):bool",
    **dict.fromkeys(
        ("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
        _TIMESTAMP_PART_SIGNATURES,
    ),
    **dict.fromkeys(("getHours", "getMinutes", "getSeconds", "getMilliseconds"), _TIME_PART_SIGNATURES),
    "charAt": "string.(int):string",
    **dict.fromkeys(("indexOf", "lastIndexOf"), "string.(string):int string.(string,int):int list(A).(A):int"),
    **dict.fromkeys(("lowerAscii", "upperAscii", "trim"), "string.():string"),
    "replace": "string.(string,string):string string.(string,string,int):string",
    "split": "string.(string):list(string) string.(string,int):list(string)",
    "substring": "string.(int):string string.(int,int):string",
    "join": "list(string).():string list(string).(string):string",
    "find": "string.(string):string",
    "findAll": "string.(string):list(string) string.(string,int):list(string)",
    "sum": " ".join(f"list({each}).():{each}" for each in (*_NUMBER_TYPES, "duration")),
    **dict.fromkeys(("min", "max"), " ".join(f"list({each}).():{each}" for each in _ORDERED_TYPES)),
    "isSorted": " ".join(f"list({each}).():bool" for each in _ORDERED_TYPES),
    "quantity": "(string):kubernetes.Quantity",
    "isQuantity": "(string):bool",
    "isInteger": "kubernetes.Quantity.():bool",
    "asInteger": "kubernetes.Quantity.():int",
    "asApproximateFloat": "kubernetes.Quantity.():double",
    "sign": "kubernetes.Quantity.():int",
    **dict.fromkeys(
        ("add", "sub"),
        "kubernetes.Quantity.(kubernetes.Quantity):kubernetes.Quantity kubernetes.Quantity.(int):kubernetes.Quantity",
    ),
    **dict.fromkeys(("isGreaterThan", "isLessThan"), "kubernetes.Quantity.(kubernetes.Quantity):bool"),
    "compareTo": "kubernetes.Quantity.(kubernetes.Quantity):int",
}
"""Signatures by function: `(arguments):result`, or `receiver.(arguments):result` for a method."""
_SIGNATURE: Final = re.compile(r"(?:(?P<receiver>\S+)\.)?\((?P<arguments>\S*)\):(?P<result>\S+)")


@cache
def signatures(function: str) -> tuple[Signature, ...]:
    """Return the signatures of a function; empty for an unknown function."""
    return tuple(_parse_signature(text) for text in _SIGNATURE_TEXTS.get(function, "").split())


def _parse_signature(text: str) -> Signature:
    match = _SIGNATURE.fullmatch(text)
    assert match is not None, text
    receiver = match["receiver"]
    arguments = tuple(_parse_type(each) for each in _split_arguments(match["arguments"]))
    return Signature(
        receiver is not None,
        (*((_parse_type(receiver),) if receiver else ()), *arguments),
        _parse_type(match["result"]),
    )


def _split_arguments(text: str) -> list[str]:
    """Split at the commas outside of parentheses."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts if text else []


def _parse_type(text: str) -> Type:
    name, opened, rest = text.partition("(")
    return Type(name, tuple(_parse_type(each) for each in _split_arguments(rest[:-1]))) if opened else Type(name)
