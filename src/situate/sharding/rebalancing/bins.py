"""Items in bins with limited room: what packing is asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

EXACT_ITEMS: Final = 16
"""So many can be packed with the fewest moves (`exact`)."""


@dataclass(frozen=True, slots=True)
class Item:
    load: float
    home: int
    """Its bin now; -1: none that is there."""


@dataclass(frozen=True, slots=True)
class Bin:
    room: float
    """For items, those at home included."""
