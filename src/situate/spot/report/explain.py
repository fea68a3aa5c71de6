"""Why a pod or a workload stands as it does, and what would happen if all spot ended (B32). Data, for any output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from situate.spot.admission.classify import Classified, Demand, classify
from situate.spot.admission.ledger import Ledger, Reservation
from situate.spot.capacity.free_capacity import Places
from situate.spot.capacity.headroom import displaced, wave_room
from situate.spot.model.counts import effective
from situate.spot.model.misplaced import Workload, misplaced
from situate.spot.model.pods_nodes_workloads import Capacity, NodeState, Owner, PodFacts
from situate.spot.rebalance.decide import Decision, Report, Situation, State, decide
from situate.spot.report.wave_impact import Loss, Pace, loss
from situate.spot.workloads.cluster_view import NO_MEMORY, Memory, workload_of


@dataclass(frozen=True, slots=True)
class PodStory:
    """One pod."""

    pod: PodFacts
    pod_class: Capacity | None
    """What admission wrote; None: it was admitted without us."""
    effective: Capacity | None
    """As what it counts; None: for nothing, its node ends."""
    node_state: NodeState | None
    """None where it has no node, or one that is not known."""
    node_why: str
    turn: int | None
    """Its place among those that would be moved, from 1; None if it stands right."""


@dataclass(frozen=True, slots=True)
class Story:
    """A workload."""

    owner: Owner
    report: Report
    pods: tuple[PodStory, ...]
    """In the order of their names."""
    classes: Mapping[str, int]
    """Live pods by class; `unclassified` for those without."""
    reservations: tuple[Reservation, ...]
    """Answers whose pods have not been seen."""
    conflict: str
    """The field of the user's template that allows only one capacity, or none; empty if both are allowed."""
    next_class: Capacity | None
    """Of a pod that its present revision would get now; None where ordinals say it."""
    if_spot_ended: Loss
    orders: tuple[str, ...]
    """What is ordered for it now, a sentence each."""


def explain_workload(
    state: State,
    situation: Situation,
    places: Places,
    ledger: Ledger,
    uid: str,
    now: float,
    pace: Pace = Pace(),  # noqa: B008  # frozen
) -> Story | None:
    """The whole story; None for a workload that is not known. Nothing is remembered. `places`: as for a plan."""
    owner = situation.cluster.owners.get(uid)
    if owner is None:
        return None
    decision = decide(state, situation, now)
    memory = decision.state.memories.get(uid, NO_MEMORY)
    workload = workload_of(situation.cluster, owner, situation.rules, memory)
    nodes = situation.cluster.nodes
    order = [pod.uid for pod in misplaced(workload, nodes, situation.around.leaders).victims]
    classes: dict[str, int] = {}
    for pod in workload.live:
        name = str(pod.pod_class) if pod.pod_class is not None else "unclassified"
        classes[name] = classes.get(name, 0) + 1
    return Story(
        owner,
        decision.reports[uid],
        tuple(_pod(pod, situation, order) for pod in sorted(workload.pods, key=lambda pod: pod.key)),
        classes,
        tuple(
            entry
            for slot in ledger.reservations
            if slot.owner == uid
            for entry in ledger.unmatched(slot, workload.pods, now)
        ),
        owner.conflict,
        _next_class(workload, situation, ledger, memory, now),
        loss(workload, nodes, pace, fit=wave_room(displaced([workload], nodes), places).fit),
        tuple(_sentences(decision, uid)),
    )


def explain_pod(story: Story, uid: str) -> PodStory | None:
    """One pod of a story; None if it is none of its pods."""
    return next((each for each in story.pods if each.pod.uid == uid), None)


def _pod(pod: PodFacts, situation: Situation, order: list[str]) -> PodStory:
    node = situation.cluster.nodes.get(pod.node)
    return PodStory(
        pod,
        pod.pod_class,
        effective(pod, situation.cluster.nodes),
        node.state if node is not None else None,
        node.why if node is not None else "",
        order.index(pod.uid) + 1 if pod.uid in order else None,
    )


def _next_class(
    workload: Workload, situation: Situation, ledger: Ledger, memory: Memory, now: float
) -> Capacity | None:
    owner = workload.owner
    if owner.stateful:
        return None
    surge = bool(memory.surge_revision) and memory.surge_revision == owner.revision
    demand = Demand(owner, workload.target, owner.revision, workload.pods, surge_as_spot=surge)
    classified = classify(demand, situation.cluster.nodes, ledger, now)
    assert isinstance(classified, Classified)  # without a ReplicaSet no view can be stale
    return owner.pinned or classified.pod_class


def _sentences(decision: Decision, uid: str) -> list[str]:
    ordered = (*decision.actions, *decision.would)
    words = [f"{type(action).__name__} {action.pod}" for action in ordered if action.owner == uid]
    return words + [notice.message for notice in decision.notices if notice.owner == uid]
