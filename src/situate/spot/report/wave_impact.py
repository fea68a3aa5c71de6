"""What the end of all spot nodes would cost a workload now (B32); the room that it would need is in `headroom`."""

from __future__ import annotations

from dataclasses import dataclass

from situate.spot.model.counts import Nodes, effective
from situate.spot.model.misplaced import Workload
from situate.spot.model.pods_nodes_workloads import Capacity


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things take, in seconds; the defaults are those that the reference's baselines assume."""

    detection_s: float = 55.0
    """From the end of a node until its pods are replaced, where its Node object goes."""
    start_s: float = 25.0
    node_start_s: float = 75.0
    """Until a node that is asked for takes pods."""


@dataclass(frozen=True, slots=True)
class Loss:
    """If all spot nodes ended at this moment, without a notice."""

    replicas: int
    stay: int
    """Ready pods that are left."""
    outage_s: float
    """With none ready."""
    under_quorum_s: float
    """With half or fewer ready."""
    fit: int
    """Of the pods that would go, those that on-demand nodes have room for."""


def loss(workload: Workload, nodes: Nodes, pace: Pace = Pace(), *, fit: int | None = None) -> Loss:  # frozen
    """Of one workload. `fit`: so many of the pods that would go find room on demand; None: all of them."""
    replicas = workload.owner.replicas
    stay = sum(pod.ready and bool(pod.node) and effective(pod, nodes) is Capacity.ON_DEMAND for pod in workload.live)
    fit = replicas - stay if fit is None else fit
    soon = pace.detection_s + pace.start_s

    def until(needed: int) -> float:
        """Seconds until so many are ready again; what finds no room waits for a new node."""
        if stay >= needed or not replicas:
            return 0.0
        return soon if stay + fit >= needed else soon + pace.node_start_s

    return Loss(replicas, stay, until(1), until(replicas // 2 + 1), fit)
