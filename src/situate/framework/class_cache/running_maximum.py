"""Find the first of the highest of many totals without reading all of them each time.

Totals are divided into blocks, and each block has a bound that no total in it exceeds. The bound rises with a total,
and stays when a total falls. `first_maximum` reads the first block with the highest bound. If no total there reaches
the bound, the bound is lowered to the highest total, and `first_maximum` tries the next block. The result is exact and
costs about one block plus the bounds.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from situate.framework.results.verdict import Indices

Totals = NDArray[np.signedinteger[Any]]

BLOCK: Final = 1024
LONG: Final = 2**15
"""From this number of totals on, a search by blocks is cheaper than a search over all."""


class RunningMaximum:
    """Block bounds of totals that the caller changes; mutable."""

    __slots__ = ("_bounds",)

    def __init__(self, totals: Totals, bounds: Totals | None = None) -> None:
        """`bounds` is the array for the bounds, one for each block, if others update them too."""
        self._bounds: Totals = np.maximum.reduceat(totals, np.arange(0, len(totals), BLOCK), out=bounds)

    def record_change(self, rows: Indices, totals: Totals) -> None:
        """Record the new totals, (rows,), of these rows."""
        np.maximum.at(self._bounds, rows // BLOCK, totals)

    def first_maximum(self, totals: Totals) -> int:
        """Return the index of the first of the highest totals."""
        bounds = self._bounds
        while True:
            block = int(bounds.argmax())
            begin = block * BLOCK
            some = totals[begin : begin + BLOCK]
            place = int(some.argmax())
            if some[place] == bounds[block]:
                return begin + place
            bounds[block] = some[place]
