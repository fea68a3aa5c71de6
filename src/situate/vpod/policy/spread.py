"""How uneven a vpod would lie over pods, nodes or zones: sums and extremes of differences, for all places at once.

The plain way compares each place with each other one. Sorting the counts once and reading prefix sums gives the same
integers in O(n log n), which is what lets one call place a hundred vreplicas over two thousand pods.
"""

from __future__ import annotations

import numpy as np

from situate.vpod.policy.view import Bools, Ints

NO_GAP = -(2**31)  # within every limit that 32 bits can name


def unevenness(own: Ints, compared: Bools, step: int) -> Ints:
    """For each place p: the sum of ``|own(p) + step - own(q)|`` over all other places q that are compared.

    ``step`` is +1 for placing one more and -1 for removing one. Exact while counts stay below 2**31 and places below
    2**31.
    """
    # methods of arrays, and a plain integer: for a handful of pods numpy's functions take longer than what they do
    others = own[compared]
    others.sort()
    below = np.zeros(len(others) + 1, dtype=np.int64)
    others.cumsum(out=below[1:])
    wanted = own + int(step)
    rank = others.searchsorted(wanted)
    sums: Ints = wanted * (2 * rank - len(others)) + below[-1] - 2 * below[rank]
    sums -= compared  # a compared place has met itself, one step away
    return sums


def widest_gap(own: Ints, compared: Bools) -> Ints:
    """For each place p: the greatest ``|own(p) + 1 - own(q)|`` over all other places q that are compared.

    `NO_GAP` where there is no other place.
    """
    others = np.sort(own[compared])
    if len(others) == 0:
        return np.full(len(own), NO_GAP, dtype=np.int64)
    if len(others) == 1:
        return np.where(compared, NO_GAP, np.abs(own + 1 - others[0]))
    # without itself, the place that holds the least faces the second least, and likewise at the top
    least = np.where(compared & (own == others[0]), others[1], others[0])
    most = np.where(compared & (own == others[-1]), others[-2], others[-1])
    gaps: Ints = np.maximum(np.abs(own + 1 - least), np.abs(own + 1 - most))
    return gaps
