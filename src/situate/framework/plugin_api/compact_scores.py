"""Score columns with few distinct values: all nodes of a domain share the domain's score.

For a plugin with such scores (`GradingPlugin`), NormalizeScore runs once per distinct value instead of per node. The
result is the same: the normalized value of a score depends only on the score and on the lowest and highest score. These
are equal for the distinct values and for the nodes.
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
    """(nodes,): the index of each node's score in `values`; None if `values` has the nodes' scores in order."""
    present: Mask | None = None
    """The values that some node has; None means all."""

    def by_node(self) -> NDArray[np.int64]:
        """Return (nodes,): the score of each node."""
        return self.values if self.of_node is None else self.values.take(self.of_node)

    @property
    def present_values(self) -> NDArray[np.int64]:
        """The values that some node has."""
        return self.values if self.present is None else self.values[self.present]

    def spread_over_nodes(self, worth: NDArray[W]) -> NDArray[W]:
        """Return (nodes,): for each node, the entry of `worth` for its score.

        `worth` is parallel to `present_values`.
        """
        if self.of_node is None:
            return worth
        if self.present is not None:
            table = np.zeros(len(self.values), dtype=worth.dtype)
            table[self.present] = worth
            worth = table
        return worth.take(self.of_node)
