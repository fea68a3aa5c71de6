"""GpuClusteringScore: groups Pods with similar GPU requests, as in Gandiva (Xiao et al., OSDI 2018)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from situate.framework.plugin_api.plugin import HIGHEST, Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.snapshot.device_allocations import AllocationDefinition
from situate.framework.snapshot.snapshot import Snapshot
from situate.plugins.gpu_share.devices import idle_amounts
from situate.plugins.gpu_share.dot_product_score import LARGEST_GPU
from situate.plugins.gpu_share.gpu_share import GpuShare
from situate.plugins.gpu_share.requests import MOST_DEVICES, WHOLE, BadRequest, GpuRequest, gpu_request

_SHARE: Final = 0
"""The kind of Pods that share a GPU. The kind of other Pods is their number of GPUs."""


class GpuClusteringScore(GpuShare):
    """Scores by the kinds of GPU Pods on the node; 0 for a Pod without GPUs.

    A node with Pods of the Pod's own kind only starts at three quarters of 100, and one with other kinds too at half. A
    node without GPU Pods starts at a quarter. Within the quarter, a fuller node is better.
    """

    name = "GpuClusteringScore"

    def score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Scores:  # noqa: ARG002
        request: GpuRequest | None = state
        if request is None:
            return np.zeros(snapshot.count, dtype=np.int64)
        there = snapshot.allocated_units(_KINDS, MOST_DEVICES + 1) > 0
        kinds = np.count_nonzero(there, axis=0)
        same = there[_kind(request)]
        quarters = np.where(same, np.where(kinds == 1, 3, 2), np.where(kinds == 0, 1, 0))
        used = np.maximum(LARGEST_GPU - idle_amounts(snapshot).sum(axis=0), 0)
        quarter = HIGHEST // 4
        scores: Scores = quarter * quarters + quarter * used // LARGEST_GPU
        return scores


def _kind(request: GpuRequest) -> int:
    return _SHARE if request.count == 1 and request.milli < WHOLE else request.count


def _kind_of(info: PodInfo) -> tuple[tuple[int, int], ...]:
    try:
        request = gpu_request(info.template.annotations)
    except BadRequest:
        return ()
    return () if request is None else ((_kind(request), 1),)


_KINDS: Final = AllocationDefinition("GpuClusteringScore", _kind_of)
