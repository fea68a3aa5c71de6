"""What the end of all spot nodes would cost a workload now (B32); the room that it would need is in `headroom`."""

from __future__ import annotations

from dataclasses import dataclass

from situate.spot.counting import Nodes, effective
from situate.spot.evictions import Workload
from situate.spot.model import Capacity


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
    room: bool
    """Whether on-demand nodes have room for all that would go."""


def loss(workload: Workload, nodes: Nodes, pace: Pace = Pace(), *, room: bool = True) -> Loss:  # frozen
    """Of one workload."""
    replicas = workload.owner.replicas
    stay = sum(pod.ready and bool(pod.node) and effective(pod, nodes) is Capacity.ON_DEMAND for pod in workload.live)
    back = pace.detection_s + pace.start_s + (0.0 if room else pace.node_start_s)
    outage = 0.0 if stay or not replicas else back
    quorum = 0.0 if 2 * stay > replicas or not replicas else back
    return Loss(replicas, stay, outage, quorum, room)
