"""Which pods of a workload stand wrong, in the order in which they would be moved, and why not now (3.7, P28, P29).

Counted is by where pods are, not by what they were meant for: a pod that sits right is never moved, and exactly as many
restarts follow a changed target as it differs. Limits of the cluster are left to `decide`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from situate.spot.model.counts import Nodes, counted, effective, on_demand_effective
from situate.spot.model.pods_nodes_workloads import Capacity, NodeState, Owner, PodFacts

LATELY_S: Final = 600.0
"""A pod that is younger has hardly begun to serve."""


class Blocked(StrEnum):
    """Why nothing is moved now."""

    STALE = "Stale"
    """The workload's controller has not seen its present spec."""
    ROLLOUT = "Rollout"
    WAVE = "Wave"
    """Nodes are ending: their pods come first."""
    IN_FLIGHT = "InFlight"
    """A pod is on its way out, or there are more than there should be."""
    PENDING = "Pending"
    """A pod has no node."""
    NOT_READY = "NotReady"
    """Pods are missing or not ready."""
    COOL_DOWN = "CoolDown"
    PDB = "PDB"
    NO_ON_DEMAND_ROOM = "NoOnDemandRoom"
    NO_SPOT_ROOM = "NoSpotRoom"
    NOT_CALM = "NotCalm"
    """Spot comes and goes; what would return there waits."""
    RESTART_NOT_ALLOWED = "RestartNotAllowed"
    """The only pod of a StatefulSet waits for its annotation, a window or a notice."""
    WINDOW = "Window"
    BUDGET = "Budget"
    STOPPED = "Stopped"
    """Moves have failed too often."""
    INVALID_POLICY = "InvalidPolicy"
    """The value of its policy cannot be read, and no valid one is known."""
    PINNED = "Pinned"
    """The user's own constraints forbid what the target asks for."""
    HELD = "Held"
    """Whoever could move leads the workload, or stands on a node that somebody has cordoned."""


@dataclass(frozen=True)
class Workload:
    """A workload with its pods and its target; without slots, since it remembers who lives."""

    owner: Owner
    target: int
    pods: Sequence[PodFacts]
    """All of them, also those that end, have ended or were released."""

    @cached_property
    def live(self) -> Sequence[PodFacts]:
        """Those that count."""
        return tuple(counted(self.pods))


@dataclass(frozen=True, slots=True)
class Misplaced:
    """What has to be moved until the target is met."""

    need: int
    """On-demand pods that are lacking; negative if there are too many."""
    candidates: tuple[PodFacts, ...] = ()
    """Who may be moved, the first choice first; maybe more than the need."""

    @property
    def total(self) -> int:
        """Moves until the target is met."""
        return min(abs(self.need), len(self.candidates))

    @property
    def victims(self) -> tuple[PodFacts, ...]:
        return self.candidates[: abs(self.need)]


def misplaced(workload: Workload, nodes: Nodes, leaders: Collection[str] = ()) -> Misplaced:
    """What stands wrong; `leaders` are uids of pods that policy never moves."""
    owner, live = workload.owner, workload.live
    need = workload.target - on_demand_effective(live, nodes)
    if need > 0 and not owner.stateful:
        need = max(0, need - max(0, owner.replicas - len(live)))  # admission classes those that are to come
    if need > 0 and owner.pinned is not Capacity.SPOT:
        return Misplaced(need, tuple(_to_on_demand(workload, live, nodes, leaders)))
    if need < 0 and owner.pinned is not Capacity.ON_DEMAND:
        return Misplaced(need, tuple(_to_spot(workload, live, nodes, leaders)))
    return Misplaced(need)


def gate(
    workload: Workload,
    now: float,
    *,
    wave: bool = False,
    overdue: bool = False,
    disruptions_allowed: int | None = None,
    cool_down_s: float = 60.0,
) -> Blocked | None:
    """Why no pod of the workload may be moved now; None if one may.

    `overdue`: its rollout or scale-down has been awaited for long enough (B12). `disruptions_allowed` is of the budget
    that selects its pods, None without one. `cool_down_s` runs from when its last pod became ready, so whatever
    disturbed it lengthens it.
    """
    owner, live = workload.owner, workload.live
    if not owner.observed:
        return Blocked.STALE
    if owner.rolling and not owner.paused and not overdue:
        return Blocked.ROLLOUT
    if wave:
        return Blocked.WAVE
    if any(not pod.finished and not pod.live for pod in workload.pods):
        return Blocked.IN_FLIGHT
    if len(live) > owner.replicas and not overdue:
        return Blocked.IN_FLIGHT
    if any(not pod.node for pod in live):
        return Blocked.PENDING
    if len(live) < owner.replicas or any(not pod.ready for pod in live):
        return Blocked.NOT_READY
    steady = max(cool_down_s, owner.min_ready_s)
    if any(pod.ready_since is not None and now - pod.ready_since < steady for pod in live):
        return Blocked.COOL_DOWN
    if disruptions_allowed is not None and disruptions_allowed < 1:
        return Blocked.PDB
    return None


def patience(pod: PodFacts, now: float, cool_down_s: float) -> float:
    """How long a workload has to have been steady before this pod of it is moved.

    One that was admitted without us lately is put right as soon as all are ready: its service has hardly begun, and
    nobody has planned with it (B4).
    """
    return 0.0 if pod.pod_class is None and now - pod.created < LATELY_S else cool_down_s


def _to_on_demand(
    workload: Workload, live: Sequence[PodFacts], nodes: Nodes, leaders: Collection[str]
) -> list[PodFacts]:
    """On ending nodes first, then not ready, then at risk, then the youngest."""

    def turn(pod: PodFacts) -> tuple[bool, bool, bool, float, str]:
        node = nodes.get(pod.node)
        ending = node is not None and node.ending
        at_risk = node is not None and node.state is NodeState.AT_RISK
        return not ending, pod.ready, not at_risk, -pod.created, pod.key.name

    wrong = [
        pod
        for pod in live
        if effective(pod, nodes) is not Capacity.ON_DEMAND
        and _movable(pod, nodes, leaders)
        and (not workload.owner.stateful or _ordinal(workload.owner, pod) < workload.target)
    ]
    return sorted(wrong, key=turn)


def _to_spot(workload: Workload, live: Sequence[PodFacts], nodes: Nodes, leaders: Collection[str]) -> list[PodFacts]:
    """Those that were meant for spot first, then those that nobody classed, then those meant to be on demand.

    Only of revisions with more than the target: admission counts by revision, so in a rollout that stands still a pod
    of another one would come back as it was.
    """
    order = {Capacity.SPOT: 0, None: 1, Capacity.ON_DEMAND: 2}
    held = Counter(pod.revision for pod in live if effective(pod, nodes) is Capacity.ON_DEMAND)

    def turn(pod: PodFacts) -> tuple[int, float, str]:
        return order.get(pod.pod_class, 1), -pod.created, pod.key.name

    wrong = [
        pod
        for pod in live
        if effective(pod, nodes) is Capacity.ON_DEMAND
        and _movable(pod, nodes, leaders)
        and (
            _ordinal(workload.owner, pod) >= workload.target
            if workload.owner.stateful
            else held[pod.revision] > workload.target
        )
    ]
    return sorted(wrong, key=turn)


def _movable(pod: PodFacts, nodes: Nodes, leaders: Collection[str]) -> bool:
    """Not from a node that somebody cordoned, unless it is to go anyway, and not a leader."""
    node = nodes.get(pod.node)
    guarded = node is not None and node.cordoned and node.state < NodeState.AT_RISK
    return pod.uid not in leaders and not guarded


def _ordinal(owner: Owner, pod: PodFacts) -> int:
    ordinal = owner.ordinal(pod.key.name)
    return -1 if ordinal is None else ordinal
