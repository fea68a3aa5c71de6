"""Normalization of raw scores to 0..100 (upstream plugins/helper/normalize_score.go)."""

from __future__ import annotations

from situate.framework.plugin_api.plugin import HIGHEST, Scores


def default_normalize(raw: Scores, *, reverse: bool = False, most: int = HIGHEST) -> Scores:
    """Scale the scores so that the highest becomes `most`: `most * s // highest`. Reversed, the lowest is best.

    If all scores are 0, they stay 0, or become `most` if reversed.
    """
    highest = int(raw.max(initial=0))
    if highest == 0:
        return raw + most if reverse else raw
    scaled = raw * most // highest
    return most - scaled if reverse else scaled
