"""Where nodes stand by zone and by how many pods of a kind they have: kept from pod to pod, since few of them move."""

from __future__ import annotations

from typing import Final

import numpy as np

from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.topology_counts import Question
from situate.plugins.pod_topology_spread_rules import Counts

_KEPT: Final = 2**20
"""Nodes of all grids of a node table; 24 bytes each."""
_FEW: Final = 16
"""Nodes that move; with more of them all are looked at afresh."""
_SPARE: Final = 2
"""Columns beyond what is needed, so that a grid lasts."""


class Grid:
    """Rows are domains, columns are numbers of pods on a node; mutable, of whoever asks last."""

    __slots__ = ("_here", "_many", "cell", "columns")

    def __init__(self, domain: Indices, rows: int, here: Counts) -> None:
        """`domain` and `here`, both (nodes,): the row of each node, and so many pods are on it."""
        self.columns = int(here.max(initial=0)) + 1 + _SPARE
        self._here = here.copy()
        self.cell: Indices = domain * self.columns + here
        """(nodes,): row by row; until the grid follows."""
        self._many = np.bincount(self.cell, minlength=rows * self.columns)

    @property
    def present(self) -> Mask:
        """(cells,): which of them some node has."""
        return self._many > 0

    def follow(self, here: Counts) -> bool:
        """Whether it is up to date with these numbers of pods; if not, another one has to be made."""
        moved = (here != self._here).nonzero()[0]
        if len(moved) > _FEW:
            return False
        for node in moved.tolist():
            number, old = here.item(node), self.cell.item(node)
            if number >= self.columns:
                return False
            new = old + number - self._here.item(node)
            self._many[old] -= 1
            self._many[new] += 1
            self.cell[node] = new
            self._here[node] = number
        return True


class Grids:
    """Of one node table; mutable."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Question, Indices, Grid]] = {}
        """What keys name by `id` is kept beside the grid."""

    def of(self, question: Question, domain: Indices, rows: int, here: Counts) -> Grid:
        """Up to date; `here` is what the question comes to on the nodes of `domain`, an array that nobody changes."""
        key = id(question), id(domain)
        known = self._known.get(key)
        if known is not None and known[2].follow(here):
            return known[2]
        if known is None and (len(self._known) + 1) * len(domain) > _KEPT:
            self._known.clear()
        grid = Grid(domain, rows, here)
        self._known[key] = question, domain, grid
        return grid
