"""Bringing raw scores to 0..100 (upstream plugins/helper/normalize_score.go)."""

from __future__ import annotations

from situate.framework.plugin import HIGHEST, Scores


def default_normalize(raw: Scores, *, reverse: bool = False) -> Scores:
    """In proportion to the highest: `100 * s // highest`; reversed, the lowest is best.

    When all are 0 they stay 0, or become 100 if reversed.
    """
    highest = int(raw.max(initial=0))
    if highest == 0:
        return raw + HIGHEST if reverse else raw
    scaled = raw * HIGHEST // highest
    return HIGHEST - scaled if reverse else scaled
