"""Remove surplus vreplicas of a vpod, from the highest ordinals or from the fullest Pods.

Both functions return the vreplicas that stay, by ordinal; the total falls by `surplus`.
"""

from __future__ import annotations

from situate.vpod.model.records import Places

OwnPlaces = dict[int, int]


def remove_from_highest(own: Places, surplus: int) -> OwnPlaces:
    """Drop whole placements from the highest ordinal down, and cut the last one (step 6 of "Spread")."""
    left = dict(own)
    for ordinal in sorted(own, reverse=True):
        if surplus <= 0:
            break
        cut = min(surplus, left[ordinal])
        surplus -= cut
        left[ordinal] -= cut
        if left[ordinal] == 0:
            del left[ordinal]
    return left


def remove_from_fullest(own: Places, surplus: int) -> OwnPlaces:
    """Remove each time from the fullest Pod, in a tie from the highest ordinal.

    Never increases max - min. Rule B9.
    """
    left = {ordinal: held for ordinal, held in own.items() if held > 0}
    while surplus > 0 and left:
        level = max(left.values())
        fullest = sorted((o for o, held in left.items() if held == level), reverse=True)
        lower = max((held for held in left.values() if held < level), default=0)
        rounds = min(level - lower, surplus // len(fullest))
        for ordinal in fullest:
            left[ordinal] -= rounds
        surplus -= rounds * len(fullest)
        if rounds < level - lower:
            for ordinal in fullest[:surplus]:
                left[ordinal] -= 1
            surplus = 0
        left = {ordinal: held for ordinal, held in left.items() if held > 0}
    return left
