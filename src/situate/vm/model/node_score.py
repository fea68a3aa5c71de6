"""Scores of all nodes for a new Pod, as arrays. `node_fit` has the plain form for one node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from situate.framework.plugin_api.plugin import HIGHEST, Scores
from situate.vm.config.settings import Scoring
from situate.vm.model.node_columns import Column
from situate.vm.model.resource_amounts import Amounts


def scores(used: Column, total: Column, largest: Amounts, scoring: Scoring) -> Scores:
    """Return scores (nodes,) from 0 to 100.

    Fuller nodes score higher, up to `score_peak`. Of equally full nodes, larger ones score higher. `used` counts the
    Pod and the amounts held for others. A node that has less gets 0. A resource of which a node has nothing does not
    count there (C20).
    """
    share = np.divide(used, total, out=np.zeros(used.shape), where=total > 0)
    size = total / np.maximum(np.array(largest.values, dtype=np.int64), 1)[:, None]
    low, high, peak = scoring.min_usage_score, scoring.max_usage_score, scoring.score_peak
    rising = low + (1 - low) / peak * share if peak > 0 else share
    falling = high + (1 - high) / (1 - peak) * (1 - share) if peak < 1 else share
    fraction = np.where(share < peak, rising, np.where(share == peak, 1.0, falling)) * size
    worst = np.where(total > 0, fraction, np.inf).min(axis=0)
    fits = (used <= total).all(axis=0) & np.isfinite(worst)
    return np.where(fits, np.trunc(HIGHEST * np.where(fits, worst, 0.0)), 0).astype(np.int64)


def randomize_scores(raw: Scores, seed: Sequence[int]) -> Scores:
    """Return random scores. 0 stays 0; any other score becomes a uniform integer from 1 to itself."""
    drawn = np.random.default_rng(seed).integers(1, np.maximum(raw, 1) + 1)
    return np.where(raw > 0, drawn, 0)
