"""A piecewise linear function (upstream plugins/helper/shape_score.go)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from situate.framework.plugin_api.plugin import Scores
from situate.framework.snapshot.node_load import Amounts

_STEP = 10
"""Shapes have scores up to 10; results have scores up to 100."""


@dataclass(frozen=True, slots=True)
class BrokenLine:
    """A piecewise linear function, constant before the first point and after the last."""

    points: tuple[tuple[int, int], ...]
    """Pairs of utilization and score, ascending by utilization."""

    @classmethod
    def from_shape(cls, shape: Iterable[tuple[int, int]]) -> BrokenLine:
        """Create the function from pairs of utilization and score up to 10."""
        return cls(tuple((at, score * _STEP) for at, score in shape))

    def values_at(self, utilization: Amounts) -> Scores:
        """Return the value at each utilization. Divisions truncate towards zero, as in Go."""
        places = np.array([at for at, _ in self.points], dtype=np.int64)
        values = np.array([value for _, value in self.points], dtype=np.int64)
        after = np.searchsorted(places, utilization, side="left")
        left, right = np.clip(after - 1, 0, None), np.clip(after, None, len(places) - 1)
        width = np.where(right > left, places[right] - places[left], 1)
        rise = (values[right] - values[left]) * (utilization - places[left])
        between = values[left] + np.sign(rise) * (np.abs(rise) // width)
        answer: Scores = np.where(after == 0, values[0], np.where(after == len(places), values[-1], between))
        return answer
