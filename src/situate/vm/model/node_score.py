"""How good nodes are for a pod that comes to them, in columns (C20); the plain form for one node is `node_fit`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from situate.framework.plugin_api.plugin import HIGHEST, Scores
from situate.vm.model.node_columns import Column
from situate.vm.model.policy import Scoring
from situate.vm.model.resource_amounts import Amounts


def scores(used: Column, total: Column, largest: Amounts, scoring: Scoring) -> Scores:
    """(nodes,), 0 to 100: the fuller the better up to `score_peak`, and of equally full ones the larger.

    `used` counts the pod and what is held for others. 0 where that is more than the node has; a resource of which a
    node has nothing has no say there.
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


def randomized(raw: Scores, seed: Sequence[int]) -> Scores:
    """0 stays 0, every other score becomes an integer from 1 to itself, all alike probable (C21)."""
    drawn = np.random.default_rng(seed).integers(1, np.maximum(raw, 1) + 1)
    return np.where(raw > 0, drawn, 0)
