"""Working set of a cache, from the number of pages touched within the last minute, two minutes, and so on (C37).

The series grows with the window. Where it begins to grow much faster, the pages of another task begin. Values have any
unit and are a minute apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

MAX_INCREASE: Final = 3.0
"""Largest factor by which the slope after a point may exceed the slope before it."""
LENGTH_AHEAD: Final = 0.5
"""Number of points to extrapolate."""


def true_working_set_size(
    series: Sequence[float], offset: int, window: int, most_increase: float = MAX_INCREASE
) -> float:
    """Return the first value, from index `offset` on, after which the series grows too fast; else the last one.

    Slopes span `window` points, both ends included. Values are not measured at one moment, so a decrease counts as
    slope 0. Raises `ValueError` unless `window` >= 2 and `offset` >= `window` - 1.
    """
    if window < 2:
        raise ValueError(f"the window must have at least 2 points, found {window}")
    if offset < window - 1:
        raise ValueError(f"the offset must be at least the window minus one, {window - 1}, found {offset}")
    reach = window - 1
    for index in range(offset, len(series) - reach):
        before = max(0.0, series[index] - series[index - reach])
        after = max(0.0, series[index + reach] - series[index])
        if after > before * most_increase:
            return series[index]
    return series[-1]


def project_next_highest(series: Sequence[float], length: float = LENGTH_AHEAD) -> float:
    """Return the highest value if the slopes between neighbours continued for `length` more points.

    Raises `ValueError` for fewer than 2 values.
    """
    if len(series) < 2:
        raise ValueError(f"a slope needs at least 2 values, found {len(series)}")
    highest = series[0]
    for earlier, later in pairwise(series):
        reached = max(earlier, later)
        highest = max(highest, reached + (reached - earlier) * length)
    return highest


def expected_pages(series: Sequence[float], offset: int, window: int, *, use_largest: bool) -> float:
    """Return the pages expected to be needed next: the true size, with its growth extrapolated a little."""
    size = series[-1] if use_largest else true_working_set_size(series, offset, window)
    end = offset  # values before the offset count even if the series does not rise
    while end < len(series) and series[end] <= size:
        end += 1
    return project_next_highest(series[:end]) if end > 1 else series[0]
