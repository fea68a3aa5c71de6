"""GpuPackingScore: used devices before idle ones, used nodes before empty ones (Weng et al., NSDI 2022)."""

from __future__ import annotations

from typing import Any

import numpy as np

from situate.framework.plugin_api.plugin import HIGHEST, Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.snapshot.snapshot import Snapshot
from situate.plugins.gpu_share.devices import Devices, allotted_devices, idle_amounts
from situate.plugins.gpu_share.gpu_share import GpuShare
from situate.plugins.gpu_share.requests import WHOLE, GpuRequest


class GpuPackingScore(GpuShare):
    """Scores 50 to 100 on used devices, less idle being better; 0 for a Pod without GPUs.

    If the Pod needs unused devices, the score is below 50; fewer are better. If no GPU of the node is in use, the score
    is at most 33; fewer GPUs are better.
    """

    name = "GpuPackingScore"

    def score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Scores:  # noqa: ARG002
        request: GpuRequest | None = state
        if request is None:
            return np.zeros(snapshot.count, dtype=np.int64)
        free = np.sort(idle_amounts(snapshot), axis=0)
        count = Devices.from_nodes(snapshot.nodes).count
        if snapshot.chosen is not None:
            count = count[snapshot.chosen]
        taken = allotted_devices(free, request)
        begun = np.count_nonzero(taken & (free == WHOLE), axis=0)
        unused = np.count_nonzero(free == WHOLE, axis=0)
        shared = HIGHEST - np.where(taken, free * HIGHEST // WHOLE, 0).sum(axis=0) // 10
        on_empty = np.maximum(HIGHEST // 3 - unused, unused)
        on_used = np.where(begun > 0, np.maximum(HIGHEST // 2 - begun, HIGHEST // 3), np.maximum(shared, HIGHEST // 2))
        scores: Scores = np.where(unused == count, on_empty, on_used)
        return scores
