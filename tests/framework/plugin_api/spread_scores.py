"""The scores of all nodes from one value for each different score."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from situate.framework.plugin_api.compact_scores import Grades

W = TypeVar("W", bound=np.signedinteger[Any])


def spread_over_nodes(grades: Grades, worth: NDArray[W]) -> NDArray[W]:
    """Return (nodes,): for each node, the entry of `worth` for its score.

    `worth` is parallel to `present_values`.
    """
    if grades.of_node is None:
        return worth
    if grades.present is not None:
        table = np.zeros(len(grades.values), dtype=worth.dtype)
        table[grades.present] = worth
        worth = table
    return worth.take(grades.of_node)
