"""DotProductScore: prefers nodes whose idle resources differ in proportion from the Pod's request.

The score follows Tetris (Grandl et al., "Multi-Resource Packing for Cluster Schedulers", SIGCOMM 2014), with the sign
reversed by the simulator. cpu and GPU count as shares of the largest node; a smaller product is better.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from situate.framework.plugin_api.plugin import HIGHEST, Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.pod.resources import CPU
from situate.framework.snapshot.snapshot import Snapshot
from situate.plugins.gpu_share.devices import idle_amounts
from situate.plugins.gpu_share.gpu_share import GpuShare
from situate.plugins.gpu_share.requests import GpuRequest

LARGEST_CPU: Final = 128_000
"""CPU of the largest node in the paper's cluster, in thousandths of a core."""
LARGEST_GPU: Final = 8_000
"""GPUs of that node, in thousandths of a GPU."""


class DotProductScore(GpuShare):
    """Scores `trunc((1 - (cpu idle * cpu asked + GPU idle * GPU asked) / 2) * 100)`, as shares of the largest node."""

    name = "DotProductScore"

    def score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Scores:
        request: GpuRequest | None = state
        cpu = (snapshot.allocatable(0) - snapshot.requested(0)) / LARGEST_CPU
        product = cpu * (pod.template.request.amount_of(CPU) / LARGEST_CPU)
        if request is not None:
            product = product + idle_amounts(snapshot).sum(axis=0) / LARGEST_GPU * (request.total / LARGEST_GPU)
        scores: Scores = ((1 - product / 2) * HIGHEST).astype(np.int64)
        return np.clip(scores, 0, HIGHEST, out=scores)  # a node may be larger, or overallocated
