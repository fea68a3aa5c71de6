"""Parse quantities as the API server stores them: `objects.quantity` with the API server's error texts."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from situate.objects.values.quantity import BadQuantity, Quantity, parse_quantity

MALFORMED: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX: Final = "unable to parse quantity's suffix"

_SHAPE: Final = re.compile("[+-]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*")
_NANO: Final = 10**9


class QuantityError(ValueError):
    """The text is not a quantity. The message is upstream's."""


@lru_cache(maxsize=4096)
def parse_amount(text: str) -> Fraction:
    """Return the exact value in whole units, rounded away from zero to nanounits.

    Raises `QuantityError` if the text is not a quantity.
    """
    return Fraction(_parse(text).nano_value, _NANO)


@lru_cache(maxsize=4096)
def canonical_quantity(text: str) -> str:
    """Return the text in the form that the API server returns. Raises `QuantityError` if the text is not a quantity."""
    return str(_parse(text))


def _parse(text: str) -> Quantity:
    try:
        return parse_quantity(text)
    except BadQuantity:
        raise QuantityError(SUFFIX if _SHAPE.fullmatch(text) else MALFORMED) from None
