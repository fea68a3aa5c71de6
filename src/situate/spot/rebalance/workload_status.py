"""What is told of a workload: how it fares, and what about it is worth a word though nothing is moved (B41, B45)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from situate.spot.model.counts import Nodes, effective, on_demand_effective
from situate.spot.model.misplaced import Blocked, Misplaced, Workload
from situate.spot.model.pods_nodes_workloads import Capacity
from situate.spot.model.policy_limits import Limits
from situate.spot.rebalance.decision import Phase
from situate.spot.workloads.cluster_view import Memory

_PACE: Final = frozenset({Blocked.COOL_DOWN, Blocked.IN_FLIGHT})
"""What every conversion waits for between two moves: nothing stands against it."""


def phase_of(workload: Workload, moves: Misplaced, blocked: Blocked | None, *, leaving: bool) -> Phase:
    """Of a workload that takes part. `leaving`: whether pods of it stand on nodes that end, or were released."""
    if leaving:
        return Phase.WAVE
    if workload.owner.rolling:
        return Phase.ROLLOUT
    if any(not pod.ready for pod in workload.live) or len(workload.live) < workload.owner.replicas:
        return Phase.RECOVERING if moves.need == 0 else Phase.CONVERTING
    if moves.need == 0 or blocked is Blocked.PINNED:
        return Phase.SETTLED
    return Phase.CONVERTING if blocked is None or blocked in _PACE else Phase.BLOCKED


def blocked_until(
    blocked: Blocked | None,
    workload: Workload,
    memory: Memory,
    limits: Limits,
    now: float,
    calm_at: float | None,
) -> float | None:
    """When time alone ends what keeps policy from moving a pod; None where nobody can say.

    `calm_at`: when the next pool of spot nodes is calm.
    """
    match blocked:
        case Blocked.COOL_DOWN:
            steady = max(limits.cool_down_s, workload.owner.min_ready_s)
            ends = [pod.ready_since + steady for pod in workload.live if pod.ready_since is not None]
            if memory.returned_at is not None:
                ends.append(memory.returned_at + max(memory.return_wait_s, limits.return_every_s))
            return max((end for end in ends if end > now), default=None)
        case Blocked.STOPPED:
            return memory.stopped_until
        case Blocked.NOT_CALM:
            return calm_at if limits.returns else None
    return None


def on_demand_zones(nodes: Nodes) -> frozenset[str]:
    return frozenset(node.zone for node in nodes.values() if node.capacity is Capacity.ON_DEMAND and node.zone)


def one_zone(workload: Workload, nodes: Nodes) -> str:
    """A floor of several pods that one zone could take away, where there are others; empty if it is not so."""
    held = [
        nodes[pod.node].zone
        for pod in workload.live
        if pod.node in nodes and effective(pod, nodes) is Capacity.ON_DEMAND
    ]
    if len(held) < max(2, workload.target) or len(set(held)) > 1 or not held[0]:
        return ""
    return f"all on-demand pods stand in the zone {held[0]}; spread them by constraints of its own"


def leaders_on_spot(workload: Workload, nodes: Nodes, leaders: Collection[str]) -> Iterator[str]:
    """Leaders on spot beside a ready on-demand replica; no failover is forced."""
    for leader in (pod for pod in workload.live if pod.uid in leaders):
        others = [pod for pod in workload.live if pod.ready and pod.uid != leader.uid]
        if on_demand_effective([leader], nodes) == 0 and on_demand_effective(others, nodes):
            yield f"the leader {leader.key} stands on spot beside ready on-demand replicas"
