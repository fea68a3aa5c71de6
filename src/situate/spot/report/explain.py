"""Explanation of a pod or workload, and of the effect if all spot nodes ended.

The result is data for any output. Rule: B32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from situate.spot.admission.classify import Classification, Demand, classify
from situate.spot.admission.ledger import Ledger, Reservation
from situate.spot.capacity.free_capacity import PlanningCapacity
from situate.spot.capacity.headroom import displaced_pods, wave_capacity
from situate.spot.model.counts import effective_capacity
from situate.spot.model.misplaced_pods import Workload, find_misplaced_pods
from situate.spot.model.pods_nodes_workloads import Capacity, NodeState, Owner, PodFacts
from situate.spot.rebalance.decide import ClusterView, Decision, Report, State, decide
from situate.spot.report.wave_impact import Pace, WaveLoss, wave_loss
from situate.spot.workloads.cluster_objects import NO_MEMORY, WorkloadMemory, workload_of


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """Explanation of one pod."""

    pod: PodFacts
    pod_class: Capacity | None
    """Class that admission wrote; None: admitted without a class."""
    effective: Capacity | None
    """Capacity as which it counts; None: its node ends, so it does not count."""
    node_state: NodeState | None
    """None without a node, or with an unknown one."""
    node_why: str
    turn: int | None
    """Its position among the pods to move, from 1; None if it is placed correctly."""


@dataclass(frozen=True, slots=True)
class WorkloadExplanation:
    """Explanation of a workload."""

    owner: Owner
    report: Report
    pods: tuple[PodExplanation, ...]
    """Sorted by name."""
    classes: Mapping[str, int]
    """Live pods by class; `unclassified` for pods without one."""
    reservations: tuple[Reservation, ...]
    """Answers whose pods have not been seen."""
    conflict: str
    """Field of the user's template that allows only one capacity, or none; empty if both are allowed."""
    next_class: Capacity | None
    """Class of the next pod of the current revision; None if ordinals decide."""
    if_spot_ended: WaveLoss
    orders: tuple[str, ...]
    """Actions ordered for it now, one sentence each."""


def explain_workload(
    state: State,
    situation: ClusterView,
    places: PlanningCapacity,
    ledger: Ledger,
    uid: str,
    now: float,
    pace: Pace = Pace(),  # noqa: B008  # frozen
) -> WorkloadExplanation | None:
    """Explain a workload; None if it is unknown. Changes no state. `places`: as for a plan."""
    owner = situation.cluster.owners.get(uid)
    if owner is None:
        return None
    decision = decide(state, situation, now)
    memory = decision.state.memories.get(uid, NO_MEMORY)
    workload = workload_of(situation.cluster, owner, situation.rules, memory)
    nodes = situation.cluster.nodes
    order = [pod.uid for pod in find_misplaced_pods(workload, nodes, situation.constraints.leaders).victims]
    classes: dict[str, int] = {}
    for pod in workload.live_pods:
        name = str(pod.pod_class) if pod.pod_class is not None else "unclassified"
        classes[name] = classes.get(name, 0) + 1
    return WorkloadExplanation(
        owner,
        decision.reports[uid],
        tuple(_pod_explanation(pod, situation, order) for pod in sorted(workload.pods, key=lambda pod: pod.key)),
        classes,
        tuple(
            entry
            for slot in ledger.reservations
            if slot.owner == uid
            for entry in ledger.unmatched_reservations(slot, workload.pods, now)
        ),
        owner.conflict,
        _next_class(workload, situation, ledger, memory, now),
        wave_loss(workload, nodes, pace, fit=wave_capacity(displaced_pods([workload], nodes), places).placed_count),
        tuple(_order_sentences(decision, uid)),
    )


def explain_pod(story: WorkloadExplanation, uid: str) -> PodExplanation | None:
    """Return the explanation of one pod; None if the workload has no such pod."""
    return next((each for each in story.pods if each.pod.uid == uid), None)


def _pod_explanation(pod: PodFacts, situation: ClusterView, order: list[str]) -> PodExplanation:
    node = situation.cluster.nodes.get(pod.node)
    return PodExplanation(
        pod,
        pod.pod_class,
        effective_capacity(pod, situation.cluster.nodes),
        node.state if node is not None else None,
        node.why if node is not None else "",
        order.index(pod.uid) + 1 if pod.uid in order else None,
    )


def _next_class(
    workload: Workload, situation: ClusterView, ledger: Ledger, memory: WorkloadMemory, now: float
) -> Capacity | None:
    owner = workload.owner
    if owner.stateful:
        return None
    surge = bool(memory.surge_revision) and memory.surge_revision == owner.revision
    demand = Demand(owner, workload.target, owner.revision, workload.pods, surge_as_spot=surge)
    classified = classify(demand, situation.cluster.nodes, ledger, now)
    assert isinstance(classified, Classification)  # without a ReplicaSet no view can be stale
    return owner.pinned or classified.pod_class


def _order_sentences(decision: Decision, uid: str) -> list[str]:
    ordered = (*decision.actions, *decision.read_only_actions)
    words = [f"{type(action).__name__} {action.pod}" for action in ordered if action.owner == uid]
    return words + [notice.message for notice in decision.notices if notice.owner == uid]
