"""Quantities as the API server stores them: exact value and canonical text.

After `k8s.io/apimachinery/pkg/api/resource`: the suffix family that was written is kept, the number is an integer
with the largest suffix that loses nothing, and what is finer than a nanounit is rounded up.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

MALFORMED: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX: Final = "unable to parse quantity's suffix"

_SHAPE: Final = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?((?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES: Final = {power: name for name, power in _DECIMAL.items()}
_LARGEST: Final = Fraction(2**63 - 1)
_NANO: Final = 10**9


class QuantityError(ValueError):
    """The text is no quantity; its message is upstream's."""


@lru_cache(maxsize=4096)
def amount(text: str) -> Fraction:
    """The exact value in whole units, rounded up to nanounits; QuantityError if it is no quantity."""
    return _parsed(text)[0]


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The text that the API server gives back; QuantityError if it is no quantity."""
    value, family = _parsed(text)
    if family == "binary" and (value.denominator != 1 or abs(value) < 1024):
        # Binary suffixes cannot express fractions, and small numbers are written plainly.
        family = "decimal"
    sign = "-" if value < 0 else ""
    value = abs(value)
    if family == "binary":
        return sign + _binary(value.numerator)
    nanos = value * _NANO
    number, power = nanos.numerator, -9
    if number == 0:
        return "0"
    limit = 18 if family == "decimal" else 9**9
    while number % 1000 == 0 and power < limit:
        number, power = number // 1000, power + 3
    if family == "decimal":
        return f"{sign}{number}{_DECIMAL_NAMES[power]}"
    return f"{sign}{number}" + (f"e{power}" if power else "")


def _binary(number: int) -> str:
    suffix = ""
    for name in _BINARY:
        if number % 1024:
            break
        number, suffix = number // 1024, name
    return f"{number}{suffix}"


def _parsed(text: str) -> tuple[Fraction, str]:
    match = _SHAPE.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise QuantityError(SUFFIX if re.fullmatch(r"[+-]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*", text) else MALFORMED)
    sign, whole, fraction, suffix = match[1], match[2] or "", match[3] or "", match[4]
    value = Fraction(int(whole + fraction or "0"), 10 ** len(fraction))
    family = "decimal"
    if suffix in _BINARY:
        value *= 2 ** _BINARY[suffix]
        family = "binary"
    elif suffix in _DECIMAL:
        value *= Fraction(10) ** _DECIMAL[suffix]
    else:
        value *= Fraction(10) ** int(suffix[1:])
        family = "exponent"
    value = min(Fraction(-((-value.numerator * _NANO) // value.denominator), _NANO), _LARGEST)
    return (-value if sign == "-" else value), family
