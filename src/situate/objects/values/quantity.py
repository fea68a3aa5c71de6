"""Exact amounts of a resource, such as `500m` or `1.5Gi` (apimachinery pkg/api/resource quantity.go).

The rules are upstream's: no digits below a billionth are stored, and rounding goes away from zero, so that no Pod gets
less than it requests. Integers are unbounded here, but overflow above 2^63 upstream.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

_NANO: Final = 10**9
_MAX_BINARY: Final = (2**63 - 1) * _NANO
_MAX_LENGTH: Final = 200
_MAX_EXPONENT: Final = 200

_GRAMMAR: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIXES: Final = ("", *_BINARY)


class BadQuantity(ValueError):
    """An invalid quantity; the message describes the valid form."""


class Quantity:
    """An amount and the notation of its text; equal amounts are equal in any notation."""

    __slots__ = ("_nano", "_notation")

    _nano: int
    _notation: str

    def __init__(self, nano: int, notation: str = "decimal") -> None:
        """Store an amount of `nano` billionths; `notation` is `decimal` (500m), `binary` (1Gi) or `exponent` (1e3)."""
        object.__setattr__(self, "_nano", nano)
        object.__setattr__(self, "_notation", notation)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Quantity is immutable: cannot set {name}")

    @property
    def value(self) -> int:
        """Whole units, rounded away from zero."""
        return _divide_away_from_zero(self._nano, _NANO)

    @property
    def milli_value(self) -> int:
        """Thousandths, rounded away from zero."""
        return _divide_away_from_zero(self._nano, 10**6)

    @property
    def nano_value(self) -> int:
        """Billionths, exact."""
        return self._nano

    def __eq__(self, other: object) -> bool:
        return self._nano == other._nano if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self._nano < other._nano

    def __le__(self, other: Quantity) -> bool:
        return self._nano <= other._nano

    def __hash__(self) -> int:
        return hash(self._nano)

    def __bool__(self) -> bool:
        return self._nano != 0

    def __add__(self, other: Quantity) -> Quantity:
        """Add, in the notation of the first value that is not zero, as upstream does."""
        return Quantity(self._nano + other._nano, self._notation if self._nano else other._notation)

    def __sub__(self, other: Quantity) -> Quantity:
        """Subtract, in the notation of the first value that is not zero, as upstream does."""
        return Quantity(self._nano - other._nano, self._notation if self._nano else other._notation)

    def __neg__(self) -> Quantity:
        return Quantity(-self._nano, self._notation)

    def __str__(self) -> str:
        """Return the canonical text: no fraction, with the largest suffix that is still exact."""
        if not self._nano:
            return "0"
        if self._notation == "binary" and abs(self._nano) >= 1024 * _NANO and not self._nano % _NANO:
            return _binary_text(self._nano // _NANO)
        return _decimal_text(self._nano, exponent_notation=self._notation == "exponent")

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __reduce__(self) -> tuple[type[Quantity], tuple[int, str]]:
        return Quantity, (self._nano, self._notation)


NO_QUANTITIES: Final[Mapping[str, Quantity]] = MappingProxyType({})
"""The only empty map of amounts."""


@lru_cache(maxsize=4096)  # a cluster has the same few amounts in many objects
def parse_quantity(text: str) -> Quantity:
    """Parse an amount. Raises `BadQuantity` if the text is no quantity.

    A binary amount above 2^63-1 becomes 2^63-1, as upstream.
    """
    match = _GRAMMAR.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None or not (match[2] or match[3]):
        raise BadQuantity(_invalid_quantity_text(text))
    sign, whole, fraction, exponent, suffix = match.groups(default="")
    digits = int(whole + fraction)
    scale = -len(fraction)
    if suffix in _BINARY:
        notation = "binary"
        digits <<= _BINARY[suffix]
    elif exponent:
        notation = "exponent"
        if abs(int(exponent[1:])) > _MAX_EXPONENT:
            raise BadQuantity(_invalid_quantity_text(text))
        scale += int(exponent[1:])
    else:
        notation = "decimal"
        scale += _DECIMAL[suffix]
    nano = digits * 10 ** (scale + 9) if scale >= -9 else _divide_away_from_zero(digits, 10 ** (-9 - scale))
    if notation == "binary":
        nano = min(nano, _MAX_BINARY)
        if nano < _NANO:
            notation = "decimal"
    return Quantity(-nano if sign == "-" else nano, notation)


def decode_quantity(type_: type, wire: object) -> Quantity:
    """Decode a quantity for msgspec, from text, or from the plain number that a person may write."""
    if type_ is not Quantity:
        raise TypeError(f"cannot decode {type_}")
    if isinstance(wire, bool) or not isinstance(wire, str | int | float):
        raise BadQuantity(_invalid_quantity_text(str(wire)))
    return parse_quantity(str(wire).strip(" "))


def _divide_away_from_zero(amount: int, unit: int) -> int:
    return -(-amount // unit) if amount >= 0 else amount // unit


def _decimal_text(nano: int, *, exponent_notation: bool) -> str:
    exponent = -9
    while not nano % 1000 and (exponent_notation or exponent < 18):
        nano //= 1000
        exponent += 3
    if exponent_notation:
        return f"{nano}e{exponent}" if exponent else str(nano)
    return f"{nano}{_DECIMAL_SUFFIX[exponent]}"


def _binary_text(value: int) -> str:
    power = 0
    while not value % 1024 and power < len(_BINARY_SUFFIXES) - 1:
        value //= 1024
        power += 1
    return f"{value}{_BINARY_SUFFIXES[power]}"


def _invalid_quantity_text(text: str) -> str:
    shown = text if len(text) <= 40 else text[:40] + "…"
    return (
        f"{shown!r} is not a quantity; write a number, with a suffix (n u m k M G T P E Ki Mi Gi Ti Pi Ei) "
        "or a decimal exponent such as e3 if needed"
    )
