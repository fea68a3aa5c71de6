"""The unevenness of a vpod over Pods, nodes or zones: sums and extremes of differences, for all places at once.

The direct algorithm compares each place with every other place. Sorting the counts once and reading prefix sums gives
the same integers in O(n log n). One call can therefore place a hundred vreplicas over two thousand Pods.
"""

from __future__ import annotations

import numpy as np

from situate.vpod.policy.view import Bools, Ints

NO_GAP = -(2**31)  # below every limit that 32 bits can express


def unevenness(own: Ints, compared: Bools, step: int) -> Ints:
    """Return for each place p the sum of ``|own(p) + step - own(q)|`` over all other compared places q.

    ``step`` is +1 for placing one more and -1 for removing one. Exact while counts and places stay below 2**31.
    """
    # array methods and a plain integer: for few Pods, the overhead of numpy's functions exceeds their work
    others = own[compared]
    others.sort()
    below = np.zeros(len(others) + 1, dtype=np.int64)
    others.cumsum(out=below[1:])
    wanted = own + int(step)
    rank = others.searchsorted(wanted)
    sums: Ints = wanted * (2 * rank - len(others)) + below[-1] - 2 * below[rank]
    sums -= compared  # a compared place was compared with itself, one step away
    return sums


def widest_gap(own: Ints, compared: Bools) -> Ints:
    """Return for each place p the greatest ``|own(p) + 1 - own(q)|`` over all other compared places q.

    The value is `NO_GAP` if there is no other place.
    """
    others = np.sort(own[compared])
    if len(others) == 0:
        return np.full(len(own), NO_GAP, dtype=np.int64)
    if len(others) == 1:
        return np.where(compared, NO_GAP, np.abs(own + 1 - others[0]))
    # the emptiest place is compared with the second emptiest, and likewise the fullest place
    least = np.where(compared & (own == others[0]), others[1], others[0])
    most = np.where(compared & (own == others[-1]), others[-2], others[-1])
    gaps: Ints = np.maximum(np.abs(own + 1 - least), np.abs(own + 1 - most))
    return gaps
