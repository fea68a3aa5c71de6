"""Plan of the controller's next moves, if every move succeeds. Writes nothing.

`decide` is called repeatedly on a simulated cluster. Each moved pod comes back as its class requires, on a node that
takes it. So the plan equals the controller's actions while no other change occurs. Rule: B31.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from situate.spot.admission.classify import Classification, Demand, classify
from situate.spot.admission.ledger import Ledger
from situate.spot.capacity.free_capacity import PlanningCapacity
from situate.spot.model.actions import POLICY_REASONS, Delete, Evict, Move, Reason, Release
from situate.spot.model.counts import effective_on_demand_count
from situate.spot.model.pods_nodes_workloads import Capacity, NodeFacts, Owner, PodFacts, PodKey
from situate.spot.rebalance.decide import ClusterView, Notice, Report, State, decide
from situate.spot.report.cost_report import cost_report
from situate.spot.workloads.cluster_objects import NO_MEMORY, Cluster, workload_of

MOST_MOVES: Final = 10_000
_NEW_NODES: Final = {Capacity.ON_DEMAND: "a new on-demand node", Capacity.SPOT: "a new spot node"}
"""Places if autoscaling is declared and no node has free capacity."""


@dataclass(frozen=True, slots=True)
class PlannedMove:
    number: int
    owner: str
    """Such as `Deployment shop/web`."""
    pod: PodKey
    reason: Reason
    how: str
    """`Evict`, `Delete` or `Release`."""
    comes_back: Capacity
    """Class of the replacement."""
    leaves: str
    """Name of the old node."""
    to: str
    """Name of the new node; empty if none would take the pod."""


@dataclass(frozen=True, slots=True)
class Plan:
    moves: tuple[PlannedMove, ...]
    restarts: Mapping[str, int]
    """By workload."""
    extra_on_demand_places: int
    """On-demand places needed beyond those that moved pods leave."""
    share_before: float
    """Share of the cost with all pods on demand."""
    share_after: float
    blocked: Mapping[str, str]
    """Workloads whose target stays unmet, with the reason."""
    short: frozenset[str]
    """Workloads that still lack on-demand pods."""
    notices: tuple[Notice, ...]
    """Current notices for the owners."""
    after: Cluster
    """The cluster after all moves."""
    complete: bool
    """False: there are more moves than are shown."""


def plan(state: State, situation: ClusterView, places: PlanningCapacity, now: float) -> Plan:
    """Compute all moves in order, ignoring limits that only delay them (cool-downs, budgets, windows).

    `places` replaces `situation.room` and gives the state after each move.
    """
    limits = replace(
        situation.limits,
        read_only=False,
        windows=(),
        evictions=structs.replace(
            situation.limits.evictions, per_hour=MOST_MOVES, per_cluster=MOST_MOVES, cool_down_s=0.0
        ),
        returns=structs.replace(situation.limits.returns, every_s=0.0),
    )
    made = {name: NodeFacts(name, capacity) for capacity, name in _NEW_NODES.items()}
    cluster = replace(situation.cluster, nodes={**situation.cluster.nodes, **made})
    trial = replace(situation, cluster=cluster, capacity=places, limits=limits)
    first = decide(state, trial, now)
    moves: list[PlannedMove] = []
    decision = first
    while len(moves) < MOST_MOVES:
        ordered = [action for action in decision.actions if isinstance(action, Evict | Delete | Release)]
        state = decision.state
        if not ordered:
            break
        for action in ordered:
            if action.reason in POLICY_REASONS and not _still_fits(action, trial, places):
                state = _state_without_move(state, action)
                continue
            cluster, places, move = _simulate_move(trial, places, state, action, len(moves) + 1, now)
            trial = replace(trial, cluster=cluster, capacity=places)
            if move is not None:
                moves.append(move)
        now += 1
        decision = decide(state, trial, now)
    names = {uid: str(owner) for uid, owner in cluster.owners.items()}
    reports: Mapping[str, Report] = decision.reports
    return Plan(
        tuple(moves),
        Counter(move.owner for move in moves),
        max(0, _on_demand_total(cluster) - _on_demand_total(situation.cluster)),
        1 - _saving_ratio(situation.cluster, situation, state),
        1 - _saving_ratio(cluster, situation, state),
        {names[uid]: str(report.blocked) for uid, report in reports.items() if report.need and report.blocked},
        frozenset(names[uid] for uid, report in reports.items() if report.need > 0),
        first.notices,
        cluster,
        len(moves) < MOST_MOVES,
    )


def _still_fits(action: Move, trial: ClusterView, places: PlanningCapacity) -> bool:
    """Return whether the move still fits: an earlier move of the same decision may have taken the last place."""
    pod = _find_pod(trial.cluster, action)
    node = trial.cluster.nodes.get(pod.node) if pod is not None else None
    if pod is None or node is None:
        return True
    wanted = Capacity.SPOT if action.reason in (Reason.TO_SPOT, Reason.RETURN) else Capacity.ON_DEMAND
    grows = trial.limits.spot_autoscaling if wanted is Capacity.SPOT else trial.limits.on_demand_autoscaling
    either = action.reason is Reason.AT_RISK and places.fits(pod, Capacity.SPOT)
    return grows or either or places.fits(pod, wanted)


def _state_without_move(state: State, action: Move) -> State:
    memory = state.memories.get(action.owner, NO_MEMORY)
    return replace(state, memories={**state.memories, action.owner: replace(memory, moved="")})


def _find_pod(cluster: Cluster, action: Move) -> PodFacts | None:
    return next((pod for pod in cluster.pods.get(action.owner, ()) if pod.uid == action.uid), None)


def _simulate_move(
    trial: ClusterView, places: PlanningCapacity, state: State, action: Move, number: int, now: float
) -> tuple[Cluster, PlanningCapacity, PlannedMove | None]:
    """Return the cluster with the pod replaced; the replacement serves if a node takes it."""
    cluster = trial.cluster
    owner = cluster.owners.get(action.owner)
    gone = _find_pod(cluster, action)
    if gone is None:
        return cluster, places, None
    pods = [pod for pod in cluster.pods[action.owner] if pod.uid != gone.uid]
    if owner is None or gone.released:
        return replace(cluster, pods={**cluster.pods, action.owner: tuple(pods)}), places, None
    pod_class = owner.pinned or _class_of_next(owner, gone, pods, trial, state, now)
    back = replace(
        gone,
        uid=f"{gone.uid}, moved",
        pod_class=pod_class,
        node="",
        phase="Pending",
        created=now,
        started=None,
        ready=False,
        ready_since=None,
        token="",
    )
    places, node = _place_replacement(owner, gone, back, trial, places)
    if node:
        back = replace(back, node=node, phase="Running", ready=True)
    changed = replace(cluster, pods={**cluster.pods, action.owner: (*pods, back)})
    how = type(action).__name__
    return changed, places, PlannedMove(number, str(owner), gone.key, action.reason, how, pod_class, gone.node, node)


def _place_replacement(
    owner: Owner, gone: PodFacts, back: PodFacts, trial: ClusterView, places: PlanningCapacity
) -> tuple[PlanningCapacity, str]:
    """Place the pod on a node of its class; a spot pod that is not pinned overflows onto on-demand nodes."""
    free = back.pod_class is Capacity.SPOT and owner.pinned is None
    wanted = back.pod_class or Capacity.UNKNOWN
    grows = trial.limits.spot_autoscaling if wanted is Capacity.SPOT else trial.limits.on_demand_autoscaling
    after, node = places.after_move(gone, back.uid, wanted)
    if not node and free:
        after, node = places.after_move(gone, back.uid, Capacity.ON_DEMAND)
    return after, node or (_NEW_NODES[wanted] if grows else "")


def _class_of_next(
    owner: Owner, gone: PodFacts, pods: Sequence[PodFacts], trial: ClusterView, state: State, now: float
) -> Capacity:
    """Classify as admission would, with no other request in progress."""
    memory = state.memories.get(owner.uid, NO_MEMORY)
    target = workload_of(trial.cluster, owner, trial.rules, memory).target
    demand = Demand(
        owner,
        target,
        gone.revision,
        pods,
        name=gone.key.name if owner.stateful else "",
        surge_as_spot=bool(memory.surge_revision) and memory.surge_revision == gone.revision,
    )
    classified = classify(demand, trial.cluster.nodes, Ledger.empty(), now)
    assert isinstance(classified, Classification)  # without a ReplicaSet no view can be stale
    return classified.pod_class


def _on_demand_total(cluster: Cluster) -> int:
    return sum(
        effective_on_demand_count([pod for pod in pods if pod.live], cluster.nodes) for pods in cluster.pods.values()
    )


def _saving_ratio(cluster: Cluster, situation: ClusterView, state: State) -> float:
    workloads = [
        workload_of(cluster, owner, situation.rules, state.memories.get(uid, NO_MEMORY))
        for uid, owner in cluster.owners.items()
    ]
    return cost_report(workloads, cluster.nodes, situation.prices).saving
