"""Functions that Kubernetes adds to CEL, as far as conditions and policies can use them here.

After `k8s.io/apiserver/pkg/cel/library` and cel-go's string extensions. A method's receiver is its first argument. A
quantity is represented as a map, because the evaluator has no foreign types.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

from situate.cluster.errors.quantity_text import QuantityError, parse_amount

CODE_POINTS: Final = "_codePoints"
"""Name of `size` during evaluation."""
_Quantity = Mapping[str, Any]


def _size(value: Any) -> int:
    """Count the code points of a text. The evaluator's own function counts bytes."""
    return len(value)


def _string(value: Any) -> str:
    """Convert a value that the evaluator's own function, which is tried first, cannot convert."""
    if isinstance(value, bool):
        return "true" if value else "false"
    raise ValueError("no such overload: string")


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    parts = list(text) if separator == "" else text.split(separator, limit - 1 if limit > 0 else -1)
    if separator == "" and 0 < limit < len(parts):
        return [*parts[: limit - 1], "".join(parts[limit - 1 :])]
    return parts


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    return text.replace(old, new, limit)


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise ValueError(f"index out of range: {start}, {stop}")
    return text[start:stop]


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise ValueError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(value: str | Sequence[Any], part: Any, offset: int = 0) -> int:
    if isinstance(value, str):
        return value.find(part, offset)
    return next((index for index, item in enumerate(value) if item == part), -1)


def _last_index_of(value: str | Sequence[Any], part: Any) -> int:
    if isinstance(value, str):
        return value.rfind(part)
    return next((index for index in reversed(range(len(value))) if value[index] == part), -1)


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match[0] for match in re.finditer(pattern, text)]
    return found if limit < 0 else found[:limit]


def _sum(values: Sequence[Any]) -> Any:
    return sum(values) if values else 0


def _is_sorted(values: Sequence[Any]) -> bool:
    return all(left <= right for left, right in pairwise(values))


def _parse_quantity(text: str) -> _Quantity:
    try:
        return _from_fraction(parse_amount(text))
    except QuantityError as error:
        raise ValueError(str(error)) from None


def _from_fraction(value: Fraction) -> _Quantity:
    return {"quantity": [value.numerator, value.denominator]}


def _to_fraction(quantity: _Quantity) -> Fraction:
    numerator, denominator = quantity["quantity"]
    return Fraction(numerator, denominator)


def _is_quantity(text: str) -> bool:
    try:
        parse_amount(text)
    except QuantityError:
        return False
    return True


def _operand_to_fraction(value: Any) -> Fraction:
    return _to_fraction(value) if isinstance(value, Mapping) else Fraction(value)


def _compare(left: _Quantity, right: _Quantity) -> int:
    difference = _to_fraction(left) - _to_fraction(right)
    return (difference > 0) - (difference < 0)


def _as_integer(quantity: _Quantity) -> int:
    value = _to_fraction(quantity)
    if value.denominator != 1:
        raise ValueError("cannot convert value to integer")
    return value.numerator


def _sign(quantity: _Quantity) -> int:
    value = _to_fraction(quantity)
    return (value > 0) - (value < 0)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        CODE_POINTS: _size,
        "string": _string,
        "lowerAscii": lambda text: "".join(char.lower() if char.isascii() else char for char in text),
        "upperAscii": lambda text: "".join(char.upper() if char.isascii() else char for char in text),
        "trim": lambda text: text.strip(),
        "split": _split,
        "join": lambda parts, separator="": separator.join(parts),
        "replace": _replace,
        "substring": _substring,
        "charAt": _char_at,
        "indexOf": _index_of,
        "lastIndexOf": _last_index_of,
        "find": _find,
        "findAll": _find_all,
        "sum": _sum,
        "isSorted": _is_sorted,
        "min": min,
        "max": max,
        "quantity": _parse_quantity,
        "isQuantity": _is_quantity,
        "isGreaterThan": lambda left, right: _compare(left, right) > 0,
        "isLessThan": lambda left, right: _compare(left, right) < 0,
        "compareTo": _compare,
        "add": lambda left, right: _from_fraction(_to_fraction(left) + _operand_to_fraction(right)),
        "sub": lambda left, right: _from_fraction(_to_fraction(left) - _operand_to_fraction(right)),
        "isInteger": lambda quantity: _to_fraction(quantity).denominator == 1,
        "asInteger": _as_integer,
        "asApproximateFloat": lambda quantity: math.fsum([float(_to_fraction(quantity))]),
        "sign": _sign,
    }
)
"""Functions and methods by name."""

KNOWN_UPSTREAM: Final = frozenset(
    {
        *("url", "isURL", "getScheme", "getHost", "getHostname", "getPort", "getEscapedPath", "getQuery"),
        *("ip", "isIP", "cidr", "isCIDR", "containsIP", "containsCIDR", "family", "prefixLength", "masked"),
        *("semver", "isSemver", "major", "minor", "patch"),
        *("format", "validate", "named", "reverse", "flatten", "slice"),
        *("group", "resource", "subresource", "namespace", "name", "check", "allowed", "errored", "error", "reason"),
        *("path", "serviceAccount", "contains", "equivalent", "intersects", "escapeKey"),
        *("orValue", "optMap", "optFlatMap", "hasValue", "value", "transformList", "transformMap", "existsOne"),
        *("fieldSelector", "labelSelector", "isUnspecified", "isLoopback", "isGlobalUnicast"),
        *("distinct", "sort", "of", "none"),
    }
)
"""Functions of Kubernetes that this server lacks; they are refused by name."""
