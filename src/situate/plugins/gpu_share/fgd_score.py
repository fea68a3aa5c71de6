"""FGDScore: fragmentation gradient descent (Weng et al., USENIX ATC 2023)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from situate.framework.plugin_api.plugin import HIGHEST, Scores
from situate.framework.pod.keys import Key
from situate.framework.pod.pods import PodInfo
from situate.framework.pod.resources import CPU
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.settings.section import Mistake
from situate.plugins.gpu_share.devices import IdleAmounts, idle_after_placement, idle_amounts, tightest_devices
from situate.plugins.gpu_share.fragmentation import Fragmentation, Kinds, TypicalPod
from situate.plugins.gpu_share.gpu_share import GpuShare
from situate.plugins.gpu_share.requests import WHOLE, GpuRequest


class FGDScoreArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments of FGDScore."""

    typical_pods: tuple[TypicalPod, ...] = ()
    """The typical kinds of Pods, weighted by frequency."""

    def mistakes(self) -> Iterable[Mistake]:
        if not any(pod.wants_gpu for pod in self.typical_pods):
            yield Mistake(
                "typicalPods", "no pod with a GPU", "the typical kinds of pods, at least one of them with a GPU"
            )


class FGDScore(GpuShare):
    """Scores `trunc(100 / (1 + e^-d))`, where d is the decrease of fragmentation with the Pod, in GPUs.

    A Pod that requests one device is tried on each fitting device, and gets the first one with the highest score.
    """

    name = "FGDScore"
    arguments = FGDScoreArgs

    def __init__(self, arguments: FGDScoreArgs) -> None:
        self._typical = arguments.typical_pods
        self._key = Key(self.name, self._typical)

    def score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Scores:
        request: GpuRequest | None = state
        measure = self.fragmentation(snapshot)
        free = idle_amounts(snapshot)
        before, after = measure.kinds(snapshot, 0, pod.template.request.amount_of(CPU))
        usable = measure.usable_amount(before, free)
        if request is None:
            return _sigmoid(measure, measure.usable_amount(after, free) - usable, 0)
        if request.count > 1:
            return _sigmoid(
                measure, measure.usable_amount(after, idle_after_placement(free, request)) - usable, request.total
            )
        best = _usable_with_pod(measure, after, free, request).max(axis=0, initial=_INFEASIBLE)
        return _sigmoid(measure, best - usable, request.total)

    def pick(self, pod: PodInfo, request: GpuRequest, node: Snapshot) -> list[int]:
        free = idle_amounts(node)
        fits = free >= request.milli
        if request.count > 1 or len(np.unique(free[fits])) <= 1:  # devices with equal idle amounts are equally good
            return tightest_devices(free[:, 0], request)
        measure = self.fragmentation(node)
        before, after = measure.kinds(node, 0, pod.template.request.amount_of(CPU))
        gained = _usable_with_pod(measure, after, free, request) - measure.usable_amount(before, free)
        scores = np.where(fits, _sigmoid(measure, gained, request.total), -1)
        return [int(scores[:, 0].argmax())]

    def fragmentation(self, snapshot: Snapshot) -> Fragmentation:
        """Return the fragmentation measure of the snapshot's table."""
        nodes = snapshot.nodes
        return nodes.plan(self._key, lambda: Fragmentation.from_nodes(nodes, self._typical))


def _usable_with_pod(measure: Fragmentation, after: Kinds, free: IdleAmounts, request: GpuRequest) -> NDArray[np.int64]:
    """Return (devices, nodes): the usable amount with the Pod on that device; very low if the Pod does not fit."""
    return np.where(free >= request.milli, measure.usable_amount_by_device(after, free, request.milli), _INFEASIBLE)


_INFEASIBLE: Final = np.iinfo(np.int64).min // 4
_LOW: Final = -100.0
"""Lower values score 0 as well."""


def _sigmoid(measure: Fragmentation, gained: NDArray[np.int64], taken: int) -> NDArray[np.int64]:
    """Return the score for the decrease of fragmentation: the taken amount plus the gain in usable amount."""
    fall = (gained + taken * measure.weight) / (measure.weight * WHOLE)
    np.maximum(fall, _LOW, out=fall)
    scores: NDArray[np.int64] = (HIGHEST / (1 + np.exp(-fall))).astype(np.int64)
    return scores
