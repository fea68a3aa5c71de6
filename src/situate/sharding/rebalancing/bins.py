"""Items, and bins of limited capacity: the input of packing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

EXACT_ITEMS: Final = 16
"""Maximum number of items for which `exact` finds the fewest moves."""


@dataclass(frozen=True, slots=True)
class Item:
    load: float
    home: int
    """Index of its present bin; -1: it has none."""


@dataclass(frozen=True, slots=True)
class Bin:
    capacity: float
    """Capacity for items, including those at home."""
