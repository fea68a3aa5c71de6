from __future__ import annotations

import random

import numpy as np

from situate.framework.class_cache.running_maximum import BLOCK, RunningMaximum


def test_the_first_of_the_highest_stays_known_while_totals_rise_and_fall() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        count = rng.choice((1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 7))
        drawn = np.random.default_rng(seed)
        totals = drawn.integers(-1, 9, count).astype(np.int16)
        maxima = RunningMaximum(totals)
        for _ in range(60):
            assert maxima.first_maximum(totals) == int(totals.argmax())
            rows = drawn.integers(0, count, rng.choice((1, 30)))
            if rng.random() < 0.5:  # the one that was chosen falls, as a node does to which a pod has come
                rows[0] = totals.argmax()
            rows = np.unique(rows)
            totals[rows] = drawn.integers(-1, rng.choice((9, 12)), len(rows))
            maxima.record_change(rows, totals[rows])
