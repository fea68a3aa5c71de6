"""What the controller would do from here on, move by move, if every move went well (B31). Nothing is written.

The same `decide` is asked again and again, on a cluster in which each pod that was moved has come back where its class
asks for; so the plan equals what the controller does as long as nothing else happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from situate.spot.actions import Delete, Evict, Move, Reason, Release
from situate.spot.classify import Classified, Demand, classify
from situate.spot.costs import cost_report
from situate.spot.counting import Nodes, on_demand_effective
from situate.spot.decide import Report, Situation, State, decide
from situate.spot.ledger import Ledger
from situate.spot.model import Capacity, NodeFacts, Owner, PodFacts, PodKey
from situate.spot.observed import NO_MEMORY, Cluster, workload_of

MOST_MOVES: Final = 10_000
_PLACES: Final = {Capacity.ON_DEMAND: "planned on demand", Capacity.SPOT: "planned spot"}


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


@dataclass(frozen=True, slots=True)
class Plan:
    moves: tuple[PlannedMove, ...]
    restarts: Mapping[str, int]
    """By workload."""
    on_demand_room: int
    """On-demand places that are needed beyond those that moved pods leave."""
    share_before: float
    """Of the cost of all on demand."""
    share_after: float
    blocked: Mapping[str, str]
    """Workloads that stay wrong, and why."""
    complete: bool
    """False: there were more moves than are shown."""


def plan(state: State, situation: Situation, now: float) -> Plan:
    """All moves in their order; limits of pace (cool-downs, budgets, windows) only take time and are waited out."""
    limits = replace(
        situation.limits,
        read_only=False,
        windows=(),
        per_hour=MOST_MOVES,
        per_cluster=MOST_MOVES,
        cool_down_s=0.0,
        return_every_s=0.0,
    )
    nodes = {**situation.cluster.nodes, **{name: NodeFacts(name, capacity) for capacity, name in _PLACES.items()}}
    cluster = replace(situation.cluster, nodes=nodes)
    moves: list[PlannedMove] = []
    reports: Mapping[str, Report] = {}
    while len(moves) < MOST_MOVES:
        decision = decide(state, replace(situation, cluster=cluster, limits=limits), now)
        state, reports = decision.state, decision.reports
        ordered = [action for action in decision.actions if isinstance(action, Evict | Delete | Release)]
        if not ordered:
            break
        for action in ordered:
            cluster, move = _carried_out(cluster, situation, state, action, len(moves) + 1, now)
            if move is not None:
                moves.append(move)
        now += 1
    names = {uid: str(owner) for uid, owner in cluster.owners.items()}
    return Plan(
        tuple(moves),
        Counter(move.owner for move in moves),
        max(0, _on_demand(cluster) - _on_demand(situation.cluster)),
        1 - _saving(situation.cluster, situation, state),
        1 - _saving(cluster, situation, state),
        {names[uid]: str(report.blocked) for uid, report in reports.items() if report.need and report.blocked},
        len(moves) < MOST_MOVES,
    )


def _carried_out(
    cluster: Cluster, situation: Situation, state: State, action: Move, number: int, now: float
) -> tuple[Cluster, PlannedMove | None]:
    """The cluster with the pod gone and another one in its place, which serves."""
    owner = cluster.owners.get(action.owner)
    pods = list(cluster.pods.get(action.owner, ()))
    gone = next((pod for pod in pods if pod.uid == action.uid), None)
    if gone is None:
        return cluster, None
    pods.remove(gone)
    if owner is None or gone.released:
        return replace(cluster, pods={**cluster.pods, action.owner: tuple(pods)}), None
    back = _replacement(owner, gone, pods, cluster.nodes, situation, state, now)
    changed = replace(cluster, pods={**cluster.pods, action.owner: (*pods, back)})
    how = type(action).__name__
    return changed, PlannedMove(number, str(owner), gone.key, action.reason, how, back.pod_class or Capacity.UNKNOWN)


def _replacement(
    owner: Owner,
    gone: PodFacts,
    pods: Sequence[PodFacts],
    nodes: Nodes,
    situation: Situation,
    state: State,
    now: float,
) -> PodFacts:
    memory = state.memories.get(owner.uid, NO_MEMORY)
    target = workload_of(situation.cluster, owner, situation.rules, memory).target
    demand = Demand(owner, target, gone.revision, pods, name=gone.key.name if owner.stateful else "")
    classified = classify(demand, nodes, Ledger.empty(), now)
    assert isinstance(classified, Classified)  # without a ReplicaSet no view can be stale
    pod_class = owner.pinned or classified.pod_class
    return replace(
        gone,
        uid=f"{gone.uid}, moved",
        pod_class=pod_class,
        node=_PLACES[pod_class],
        created=now,
        ready=True,
        ready_since=None,
        token="",
    )


def _on_demand(cluster: Cluster) -> int:
    return sum(on_demand_effective([pod for pod in pods if pod.live], cluster.nodes) for pods in cluster.pods.values())


def _saving(cluster: Cluster, situation: Situation, state: State) -> float:
    workloads = [
        workload_of(cluster, owner, situation.rules, state.memories.get(uid, NO_MEMORY))
        for uid, owner in cluster.owners.items()
    ]
    return cost_report(workloads, cluster.nodes, situation.prices).saving
