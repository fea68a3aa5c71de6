"""A function that is a straight line between some points (upstream plugins/helper/shape_score.go)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from situate.framework.plugin_api.plugin import Scores
from situate.framework.snapshot.node_load import Amounts

_STEP = 10
"""Shapes are written with scores up to 10, and answer with scores up to 100."""


@dataclass(frozen=True, slots=True)
class BrokenLine:
    """Constant before the first point and after the last."""

    points: tuple[tuple[int, int], ...]
    """Ascending in the first."""

    @classmethod
    def of(cls, shape: Iterable[tuple[int, int]]) -> BrokenLine:
        """Of (utilization, score up to 10)."""
        return cls(tuple((at, score * _STEP) for at, score in shape))

    def at(self, utilization: Amounts) -> Scores:
        """The value at each place. Divisions truncate towards zero, as Go's do."""
        places = np.array([at for at, _ in self.points], dtype=np.int64)
        values = np.array([value for _, value in self.points], dtype=np.int64)
        after = np.searchsorted(places, utilization, side="left")
        left, right = np.clip(after - 1, 0, None), np.clip(after, None, len(places) - 1)
        width = np.where(right > left, places[right] - places[left], 1)
        rise = (values[right] - values[left]) * (utilization - places[left])
        between = values[left] + np.sign(rise) * (np.abs(rise) // width)
        answer: Scores = np.where(after == 0, values[0], np.where(after == len(places), values[-1], between))
        return answer
