"""Cells of nodes by zone and by number of Pods of a kind, updated from Pod to Pod because few nodes change."""

from __future__ import annotations

from typing import Final

import numpy as np

from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.topology_counts import TallyDefinition
from situate.plugins.pod_topology_spread_rules import Counts

_CACHED_NODES_LIMIT: Final = 2**20
"""Number of nodes in all grids of a node table; 24 bytes each."""
_FEW: Final = 16
"""Maximum number of changed nodes for an update. With more, the grid is rebuilt."""
_SPARE: Final = 2
"""Extra columns, so that a grid can be used longer."""


class Grid:
    """A grid with domains as rows and numbers of Pods on a node as columns; mutable, current for the last caller."""

    __slots__ = ("_here", "_many", "cell", "columns")

    def __init__(self, domain: Indices, rows: int, here: Counts) -> None:
        """Take `domain` and `here`, both (nodes,): the row of each node, and the number of Pods on it."""
        self.columns = int(here.max(initial=0)) + 1 + _SPARE
        self._here = here.copy()
        self.cell: Indices = domain * self.columns + here
        """(nodes,): cell numbers, row by row; valid until the next `update_counts`."""
        self._many = np.bincount(self.cell, minlength=rows * self.columns)

    @property
    def present(self) -> Mask:
        """(cells,): the cells that some node has."""
        return self._many > 0

    def update_counts(self, here: Counts) -> bool:
        """Update the grid to these numbers of Pods. Return False if it must be rebuilt."""
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
    """The grids of one node table; mutable."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[TallyDefinition, Indices, Grid]] = {}
        """The entries reference the objects whose ids are in the keys."""

    def updated_grid(self, question: TallyDefinition, domain: Indices, rows: int, here: Counts) -> Grid:
        """Return the updated grid.

        `here` is the tally of the question on the nodes of `domain`, an array that never changes.
        """
        key = id(question), id(domain)
        known = self._known.get(key)
        if known is not None and known[2].update_counts(here):
            return known[2]
        if known is None and (len(self._known) + 1) * len(domain) > _CACHED_NODES_LIMIT:
            self._known.clear()
        grid = Grid(domain, rows, here)
        self._known[key] = question, domain, grid
        return grid
