"""RandomScore: a random feasible node and a random device; the baseline of the other policies."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np

from situate.framework.plugin_api.plugin import HIGHEST, PreScored, Reads, Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.snapshot.snapshot import Snapshot
from situate.plugins.gpu_share.devices import idle_amounts, tightest_devices
from situate.plugins.gpu_share.gpu_share import GpuShare
from situate.plugins.gpu_share.requests import WHOLE, GpuRequest


class RandomScoreArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments of RandomScore."""

    seed: int = 0
    """A different seed gives different choices."""


class RandomScore(GpuShare):
    """Gives one node the full score. The Pod's uid and the seed decide, so the decision is repeatable."""

    name = "RandomScore"
    reads = Reads.CLUSTER
    arguments = RandomScoreArgs

    def __init__(self, arguments: RandomScoreArgs = RandomScoreArgs()) -> None:  # noqa: B008  # frozen
        self._seed = arguments.seed

    def pre_score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> PreScored:  # noqa: ARG002
        return PreScored(state=self._draw(pod, "node", snapshot.count))

    def score(self, state: Any, pod: PodInfo, snapshot: Snapshot) -> Scores:  # noqa: ARG002
        scores = np.zeros(snapshot.count, dtype=np.int64)
        scores[state] = HIGHEST
        return scores

    def pick(self, pod: PodInfo, request: GpuRequest, node: Snapshot) -> list[int]:
        """Select a random device for a share; whole devices are equivalent."""
        free = idle_amounts(node)[:, 0]
        fitting = np.flatnonzero(free >= request.milli).tolist()
        if request.count > 1 or request.milli == WHOLE or not fitting:
            return tightest_devices(free, request)
        return [fitting[self._draw(pod, "device", len(fitting))]]

    def _draw(self, pod: PodInfo, what: str, among: int) -> int:
        """Return 0 to `among - 1` with equal probability."""
        digest = blake2b(f"{self._seed} {pod.uid} {what}".encode(), digest_size=8).digest()
        return int.from_bytes(digest) % among
