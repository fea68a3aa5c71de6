"""The first of the highest of many totals, without looking at all of them each time.

Totals are taken in blocks. For each block a bound is kept that no total in it exceeds: it rises with every total that
is raised, and stays where it is when one falls. Whoever asks for the highest looks into the block with the highest
bound, the first of them if there are several; if nothing there reaches the bound, the bound is lowered to what is
there, and the next one is tried. So the answer is exact, and an answer costs about as much as a block and the bounds.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from situate.framework.results.verdict import Indices

Totals = NDArray[np.signedinteger[Any]]

BLOCK: Final = 1024
LONG: Final = 2**15
"""So many totals are cheaper to look for the highest in blocks than all at once."""


class Maxima:
    """Of totals that others change; mutable."""

    __slots__ = ("_bounds",)

    def __init__(self, totals: Totals, bounds: Totals | None = None) -> None:
        """`bounds`: where they are kept, one for each block, if others keep them up to date too."""
        self._bounds: Totals = np.maximum.reduceat(totals, np.arange(0, len(totals), BLOCK), out=bounds)

    def changed(self, rows: Indices, totals: Totals) -> None:
        """These rows have these totals now, (rows,)."""
        np.maximum.at(self._bounds, rows // BLOCK, totals)

    def first(self, totals: Totals) -> int:
        """The index of the first of the highest."""
        bounds = self._bounds
        while True:
            block = int(bounds.argmax())
            begin = block * BLOCK
            some = totals[begin : begin + BLOCK]
            place = int(some.argmax())
            if some[place] == bounds[block]:
                return begin + place
            bounds[block] = some[place]
