"""Loss of a workload if all spot nodes ended now; `headroom` computes the capacity needed for it.

Rule: B32.
"""

from __future__ import annotations

from dataclasses import dataclass

from situate.spot.model.counts import Nodes, effective_capacity
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import Capacity


@dataclass(frozen=True, slots=True)
class Pace:
    """Durations in seconds; the defaults are those of the baselines in docs/spec/spot.md."""

    detection_s: float = 55.0
    """From the end of a node until its pods are replaced, if its Node object is deleted."""
    start_s: float = 25.0
    node_start_s: float = 75.0
    """From the request of a node until it takes pods."""


@dataclass(frozen=True, slots=True)
class WaveLoss:
    """Loss if all spot nodes ended now, without a notice."""

    replicas: int
    stay: int
    """Ready pods that are left."""
    outage_s: float
    """Seconds with no ready pod."""
    under_quorum_s: float
    """Seconds with half of the pods or fewer ready."""
    placeable: int
    """Lost pods for which on-demand nodes have free capacity."""


def wave_loss(workload: Workload, nodes: Nodes, pace: Pace = Pace(), *, fit: int | None = None) -> WaveLoss:  # frozen
    """Compute the loss of a workload. `placeable`: lost pods with free capacity on demand; None: all of them."""
    replicas = workload.owner.replicas
    stay = sum(
        pod.ready and bool(pod.node) and effective_capacity(pod, nodes) is Capacity.ON_DEMAND
        for pod in workload.live_pods
    )
    fit = replicas - stay if fit is None else fit
    soon = pace.detection_s + pace.start_s

    def until(needed: int) -> float:
        """Return the seconds until `needed` pods are ready again; the other pods wait for a new node."""
        if stay >= needed or not replicas:
            return 0.0
        return soon if stay + fit >= needed else soon + pace.node_start_s

    return WaveLoss(replicas, stay, until(1), until(replicas // 2 + 1), fit)
