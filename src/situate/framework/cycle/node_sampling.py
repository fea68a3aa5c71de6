"""The number and order of evaluated nodes, and the choice among equal ones (upstream schedule_one.go)."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from situate.framework.results.verdict import Indices, Mask

_LEAST_NODES: Final = 100
_LEAST_PERCENTAGE: Final = 5
_BASE_PERCENTAGE: Final = 50
_NODES_PER_PERCENT: Final = 125


def feasible_nodes_to_find(nodes: int, percentage: int) -> int:
    """Return the number of feasible nodes that is enough; percentage 0 is adaptive (numFeasibleNodesToFind)."""
    if nodes < _LEAST_NODES:
        return nodes
    if percentage == 0:
        percentage = max(_LEAST_PERCENTAGE, _BASE_PERCENTAGE - nodes // _NODES_PER_PERCENT)
    return max(_LEAST_NODES, nodes * percentage // 100)


def visit(passes: Mask, start: int, enough: int) -> tuple[Indices, int]:
    """Return the first `enough` feasible nodes from `start` on, round robin, and the number of visited nodes.

    The feasible nodes are in the order of the table.
    """
    count = len(passes)
    feasible = np.flatnonzero(passes)
    if len(feasible) < enough or enough >= count:
        return feasible, count
    turned = np.concatenate((feasible[feasible >= start], feasible[feasible < start]))[:enough]
    visited = (int(turned[-1]) - start) % count + 1
    turned.sort()
    return turned, visited


def index_of_best(totals: NDArray[np.int64] | NDArray[np.uint64]) -> int:
    """Return the index of the first of the highest totals."""
    return int(totals.argmax())


def random_index_of_best(totals: NDArray[np.int64], random: np.random.Generator) -> int:
    """Return the index of one of the highest totals, with equal probability.

    A single highest total takes no random number.
    """
    highest = np.flatnonzero(totals == totals.max())
    return int(highest[random.integers(len(highest)) if len(highest) > 1 else 0])
