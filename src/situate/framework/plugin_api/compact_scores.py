"""Scores of which few differ: what domains are worth is worth the same to all of their nodes.

A plugin that says them so (`GradingPlugin`) has its NormalizeScore asked about each of them once, instead of about each
node. That changes nothing: what NormalizeScore makes of a score depends on it and on the lowest and the highest alone,
and those are the same among the scores as among the nodes that have them.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from situate.framework.results.verdict import Indices, Mask

W = TypeVar("W", bound=np.signedinteger[Any])


class Grades(msgspec.Struct, frozen=True, eq=False):
    """Raw scores of the nodes of a snapshot."""

    values: NDArray[np.int64]
    of_node: Indices | None = None
    """(nodes,): the place of each node's score among the values; None if the values are the nodes' own, in order."""
    present: Mask | None = None
    """Which of the values some node has; None is all of them."""

    def by_node(self) -> NDArray[np.int64]:
        """(nodes,)"""
        return self.values if self.of_node is None else self.values.take(self.of_node)

    @property
    def there(self) -> NDArray[np.int64]:
        """The values that some node has."""
        return self.values if self.present is None else self.values[self.present]

    def replaced(self, worth: NDArray[W]) -> NDArray[W]:
        """(nodes,): of each node what stands in `worth` for its score, which is about `there`."""
        if self.of_node is None:
            return worth
        if self.present is not None:
            table = np.zeros(len(self.values), dtype=worth.dtype)
            table[self.present] = worth
            worth = table
        return worth.take(self.of_node)
