"""Compare the ages of objects, as ReplicaSets rank the Pods to delete (upstream: controller_utils.go)."""

from __future__ import annotations

import math


def compare_ages(a: float | None, b: float | None, now: float) -> int:
    """Return a negative number if `a` is younger by a power of two, positive if `b` is; None or 0 counts as youngest.

    Times are seconds since the epoch.
    """
    if not a or not b:
        return -1 if not a else 1
    return _magnitude(now - a) - _magnitude(now - b)


def _magnitude(age_s: float) -> int:
    return int(math.log2(age_s * 1e9)) if age_s > 0 else -1
