from __future__ import annotations

import itertools


def default_normalize(scores: list[int], reverse: bool = False, top: int = 100) -> list[int]:
    """DefaultNormalizeScore."""
    highest = max(scores, default=0)
    if highest == 0:
        return [top for _ in scores] if reverse else list(scores)
    scaled = [top * score // highest for score in scores]
    return [top - score for score in scaled] if reverse else scaled


def broken_line(points: list[tuple[int, int]], at: int) -> int:
    """The value at a place; divisions truncate towards zero."""
    if at <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if at <= x1:
            rise = (y1 - y0) * (at - x0)
            steps = abs(rise) // (x1 - x0)
            return y0 + (steps if rise >= 0 else -steps)
    return points[-1][1]


def rounded(value: float) -> int:
    """Half away from zero, of a value that is not negative."""
    whole = int(value)
    return whole + 1 if value - whole >= 0.5 else whole
