"""Pods of a workload to move, in order, and the reason why none may move now.

Pods count by the node that they are on, not by their class. A pod on the right kind of node is never moved. A changed
target causes exactly as many restarts as it differs. `decide` applies the limits of the cluster. Rules: P28, P29 and
"Controller: pods to evict" in docs/spec/spot.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from situate.spot.model.counts import Nodes, counted_pods, effective_capacity, effective_on_demand_count
from situate.spot.model.pods_nodes_workloads import Capacity, NodeState, Owner, PodFacts

RECENT_S: Final = 600.0
"""A younger pod has hardly begun to serve."""


class BlockReason(StrEnum):
    """Reason why no pod is moved now."""

    STALE = "Stale"
    """The workload's controller has not observed the current spec."""
    ROLLOUT = "Rollout"
    WAVE = "Wave"
    """Nodes are ending: their pods have priority."""
    IN_FLIGHT = "InFlight"
    """A pod is leaving, or there are more pods than replicas."""
    PENDING = "Pending"
    """A pod has no node."""
    NOT_READY = "NotReady"
    """Pods are missing or not ready."""
    COOL_DOWN = "CoolDown"
    PDB = "PDB"
    NO_ON_DEMAND_ROOM = "NoOnDemandRoom"
    NO_SPOT_ROOM = "NoSpotRoom"
    NOT_CALM = "NotCalm"
    """Spot nodes come and go; pods that would return to spot wait."""
    RESTART_NOT_ALLOWED = "RestartNotAllowed"
    """The only pod of a StatefulSet waits for its annotation, a window or a notice."""
    WINDOW = "Window"
    BUDGET = "Budget"
    STOPPED = "Stopped"
    """Moves have failed too often."""
    INVALID_POLICY = "InvalidPolicy"
    """The policy value cannot be read, and no valid value is known."""
    PINNED = "Pinned"
    """The user's own constraints forbid the capacity that the target requires."""
    HELD = "Held"
    """Each movable pod leads the workload, or is on a node that another party has cordoned."""


@dataclass(frozen=True)
class Workload:
    """A workload with its pods and its target; without slots, because it caches its live pods."""

    owner: Owner
    target: int
    pods: Sequence[PodFacts]
    """All pods, including terminating, finished and released ones."""

    @cached_property
    def live_pods(self) -> Sequence[PodFacts]:
        """The pods that count."""
        return tuple(counted_pods(self.pods))


@dataclass(frozen=True, slots=True)
class MisplacedPods:
    """Pods to move until the target is met."""

    need: int
    """On-demand pods that are missing; negative if there are too many."""
    candidates: tuple[PodFacts, ...] = ()
    """Pods that may be moved, the first choice first; maybe more than the need."""

    @property
    def total(self) -> int:
        """Number of moves until the target is met."""
        return min(abs(self.need), len(self.candidates))

    @property
    def victims(self) -> tuple[PodFacts, ...]:
        return self.candidates[: abs(self.need)]


def find_misplaced_pods(workload: Workload, nodes: Nodes, leaders: Collection[str] = ()) -> MisplacedPods:
    """Return the pods to move. `leaders` are uids of pods that policy never moves."""
    owner, live = workload.owner, workload.live_pods
    need = workload.target - effective_on_demand_count(live, nodes)
    if need > 0 and not owner.stateful:
        need = max(0, need - max(0, owner.replicas - len(live)))  # admission classifies the pods still to be created
    if need > 0 and owner.pinned is not Capacity.SPOT:
        return MisplacedPods(need, tuple(_candidates_to_on_demand(workload, live, nodes, leaders)))
    if need < 0 and owner.pinned is not Capacity.ON_DEMAND:
        return MisplacedPods(need, tuple(_candidates_to_spot(workload, live, nodes, leaders)))
    return MisplacedPods(need)


def blocking_reason(
    workload: Workload,
    now: float,
    *,
    wave: bool = False,
    overdue: bool = False,
    disruptions_allowed: int | None = None,
    cool_down_s: float = 60.0,
) -> BlockReason | None:
    """Return why no pod of the workload may be moved now; None if one may.

    `overdue`: its rollout or scale-down has lasted too long to wait for (B12). `disruptions_allowed` comes from the
    budget that selects its pods; None without a budget. `cool_down_s` runs from the moment at which its last pod became
    ready, so every disturbance lengthens it.
    """
    owner, live = workload.owner, workload.live_pods
    if not owner.observed:
        return BlockReason.STALE
    if owner.rolling and not owner.paused and not overdue:
        return BlockReason.ROLLOUT
    if wave:
        return BlockReason.WAVE
    if any(not pod.finished and not pod.live for pod in workload.pods):
        return BlockReason.IN_FLIGHT
    if len(live) > owner.replicas and not overdue:
        return BlockReason.IN_FLIGHT
    if any(not pod.node for pod in live):
        return BlockReason.PENDING
    if len(live) < owner.replicas or any(not pod.ready for pod in live):
        return BlockReason.NOT_READY
    steady = max(cool_down_s, owner.min_ready_s)
    if any(pod.ready_since is not None and now - pod.ready_since < steady for pod in live):
        return BlockReason.COOL_DOWN
    if disruptions_allowed is not None and disruptions_allowed < 1:
        return BlockReason.PDB
    return None


def required_steady_time(pod: PodFacts, now: float, cool_down_s: float) -> float:
    """Return how long a workload must have been steady before this pod is moved.

    A young pod without a class is moved as soon as all pods are ready: it has hardly begun to serve, and no plan
    includes it (B4).
    """
    return 0.0 if pod.pod_class is None and now - pod.created < RECENT_S else cool_down_s


def _candidates_to_on_demand(
    workload: Workload, live: Sequence[PodFacts], nodes: Nodes, leaders: Collection[str]
) -> list[PodFacts]:
    """Sort pods to move to on demand: on ending nodes first, then not ready, then at risk, then the youngest."""

    def turn(pod: PodFacts) -> tuple[bool, bool, bool, float, str]:
        node = nodes.get(pod.node)
        ending = node is not None and node.ending
        at_risk = node is not None and node.state is NodeState.AT_RISK
        return not ending, pod.ready, not at_risk, -pod.created, pod.key.name

    wrong = [
        pod
        for pod in live
        if effective_capacity(pod, nodes) is not Capacity.ON_DEMAND
        and _is_movable(pod, nodes, leaders)
        and (not workload.owner.stateful or _ordinal_of(workload.owner, pod) < workload.target)
    ]
    return sorted(wrong, key=turn)


def _candidates_to_spot(
    workload: Workload, live: Sequence[PodFacts], nodes: Nodes, leaders: Collection[str]
) -> list[PodFacts]:
    """Sort pods to move to spot: first the spot class, then pods without a class, then the on-demand class.

    Includes only revisions with more on-demand pods than the target. Admission counts by revision, so in a stalled
    rollout a pod of another revision would get the same class again.
    """
    order = {Capacity.SPOT: 0, None: 1, Capacity.ON_DEMAND: 2}
    held = Counter(pod.revision for pod in live if effective_capacity(pod, nodes) is Capacity.ON_DEMAND)

    def turn(pod: PodFacts) -> tuple[int, float, str]:
        return order.get(pod.pod_class, 1), -pod.created, pod.key.name

    wrong = [
        pod
        for pod in live
        if effective_capacity(pod, nodes) is Capacity.ON_DEMAND
        and _is_movable(pod, nodes, leaders)
        and (
            _ordinal_of(workload.owner, pod) >= workload.target
            if workload.owner.stateful
            else held[pod.revision] > workload.target
        )
    ]
    return sorted(wrong, key=turn)


def _is_movable(pod: PodFacts, nodes: Nodes, leaders: Collection[str]) -> bool:
    """Return whether policy may move the pod: no leader, and not on a cordoned node unless that node may end."""
    node = nodes.get(pod.node)
    guarded = node is not None and node.cordoned and node.state < NodeState.AT_RISK
    return pod.uid not in leaders and not guarded


def _ordinal_of(owner: Owner, pod: PodFacts) -> int:
    ordinal = owner.ordinal(pod.key.name)
    return -1 if ordinal is None else ordinal
