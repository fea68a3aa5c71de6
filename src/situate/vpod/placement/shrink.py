"""Which vreplicas go when a vpod holds too many: from the highest ordinals, or from the fullest pods.

Both return what is left by ordinal; the total of it is the total before minus `surplus`.
"""

from __future__ import annotations

from situate.vpod.model.records import Places

Own = dict[int, int]


def from_highest(own: Places, surplus: int) -> Own:
    """Section 5.1 step 6: whole placements from the highest ordinal down, the last one in part."""
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


def from_fullest(own: Places, surplus: int) -> Own:
    """B9: always from the pod that holds most, ties from the highest ordinal. Never widens max - min."""
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
