"""What a cache really needs, from how many pages were touched within the last minute, two minutes, and so on (C37).

The series grows with the window; where it begins to grow much faster, the pages of another piece of work begin. Values
are in any unit, a minute apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

MOST_INCREASE: Final = 3.0
"""So many times the slope before a point may the slope after it be."""
LENGTH_AHEAD: Final = 0.5
"""Points that are looked ahead."""


def true_working_set_size(
    series: Sequence[float], offset: int, window: int, most_increase: float = MOST_INCREASE
) -> float:
    """The first value, from index `offset` on, after which the series grows too fast; else the last one.

    Slopes are taken over `window` points, both ends counted. Values are not measured at one moment, so a decrease
    counts as no slope. Raises `ValueError` unless `window` >= 2 and `offset` >= `window` - 1.
    """
    if window < 2:
        raise ValueError(f"the window has to be at least 2 points, not {window}")
    if offset < window - 1:
        raise ValueError(f"the offset has to be at least the window less one, {window - 1}, not {offset}")
    reach = window - 1
    for index in range(offset, len(series) - reach):
        before = max(0.0, series[index] - series[index - reach])
        after = max(0.0, series[index + reach] - series[index])
        if after > before * most_increase:
            return series[index]
    return series[-1]


def project_next_highest(series: Sequence[float], length: float = LENGTH_AHEAD) -> float:
    """The highest value if any of the slopes between neighbours went on for `length` points more.

    Raises `ValueError` for fewer than 2 values.
    """
    if len(series) < 2:
        raise ValueError(f"a slope needs at least 2 values, not {len(series)}")
    highest = series[0]
    for earlier, later in pairwise(series):
        reached = max(earlier, later)
        highest = max(highest, reached + (reached - earlier) * length)
    return highest


def expected_pages(series: Sequence[float], offset: int, window: int, *, use_largest: bool) -> float:
    """What is likely to be needed next: the true size, and the growth up to it carried on a little."""
    size = series[-1] if use_largest else true_working_set_size(series, offset, window)
    end = offset  # what comes before counts even if the series is not rising
    while end < len(series) and series[end] <= size:
        end += 1
    return project_next_highest(series[:end]) if end > 1 else series[0]
