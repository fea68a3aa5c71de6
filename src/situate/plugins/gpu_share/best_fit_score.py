"""BestFitScore: prefers the node with the least remaining capacity."""

from __future__ import annotations

from typing import Any

import numpy as np

from situate.framework.plugin_api.plugin import HIGHEST, Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.pod.resources import CPU
from situate.framework.snapshot.snapshot import Snapshot
from situate.plugins.gpu_share.devices import idle_amounts
from situate.plugins.gpu_share.dot_product_score import LARGEST_CPU, LARGEST_GPU
from situate.plugins.gpu_share.gpu_share import GpuShare
from situate.plugins.gpu_share.requests import GpuRequest


class BestFitScore(GpuShare):
    """Scores `trunc((1 - (cpu left + GPU left) / 2) * 100)`, as shares of the largest node; normalized to 0..100."""

    name = "BestFitScore"

    def score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Scores:
        request: GpuRequest | None = state
        cpu = snapshot.allocatable(0) - snapshot.requested(0) - pod.template.request.amount_of(CPU)
        gpu = idle_amounts(snapshot).sum(axis=0) - (0 if request is None else request.total)
        scores: Scores = ((1 - (cpu / LARGEST_CPU * 0.5 + gpu / LARGEST_GPU * 0.5)) * HIGHEST).astype(np.int64)
        return scores

    def normalize(self, state: Any, pod: PodInfo, raw: Scores) -> Scores:  # noqa: ARG002
        """Normalize so that the lowest becomes 0 and the highest 100; all 0 if they are equal."""
        if not len(raw):
            return raw
        low, high = int(raw.min()), int(raw.max())
        return (raw - low) * HIGHEST // max(high - low, 1)
