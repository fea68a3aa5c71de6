"""Status of a workload: its phase, and facts worth reporting although no pod moves.

Rules: B41, B45.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from situate.spot.model.counts import Nodes, effective_capacity, effective_on_demand_count
from situate.spot.model.misplaced_pods import BlockReason, MisplacedPods, Workload
from situate.spot.model.pods_nodes_workloads import Capacity
from situate.spot.model.policy_limits import Limits
from situate.spot.rebalance.decision import Phase
from situate.spot.workloads.cluster_objects import WorkloadMemory

_PACING_REASONS: Final = frozenset({BlockReason.COOL_DOWN, BlockReason.IN_FLIGHT})
"""Every conversion waits for these between two moves, so they do not count as blocked."""


def phase_of(workload: Workload, moves: MisplacedPods, blocked: BlockReason | None, *, leaving: bool) -> Phase:
    """Return the phase of a workload that takes part. `leaving`: it has pods on ending nodes, or released ones."""
    if leaving:
        return Phase.WAVE
    if workload.owner.rolling:
        return Phase.ROLLOUT
    if any(not pod.ready for pod in workload.live_pods) or len(workload.live_pods) < workload.owner.replicas:
        return Phase.RECOVERING if moves.need == 0 else Phase.CONVERTING
    if moves.need == 0 or blocked is BlockReason.PINNED:
        return Phase.SETTLED
    return Phase.CONVERTING if blocked is None or blocked in _PACING_REASONS else Phase.BLOCKED


def blocked_until(
    blocked: BlockReason | None,
    workload: Workload,
    memory: WorkloadMemory,
    limits: Limits,
    now: float,
    calm_at: float | None,
) -> float | None:
    """Return the time at which a block of policy moves ends without any event; None if unknown.

    `calm_at`: time at which the next pool of spot nodes becomes calm.
    """
    match blocked:
        case BlockReason.COOL_DOWN:
            steady = max(limits.evictions.cool_down_s, workload.owner.min_ready_s)
            ends = [pod.ready_since + steady for pod in workload.live_pods if pod.ready_since is not None]
            if memory.returned_at is not None:
                ends.append(memory.returned_at + max(memory.return_wait_s, limits.returns.every_s))
            return max((end for end in ends if end > now), default=None)
        case BlockReason.STOPPED:
            return memory.stopped_until
        case BlockReason.NOT_CALM:
            return calm_at if limits.returns.enabled else None
    return None


def on_demand_zones(nodes: Nodes) -> frozenset[str]:
    return frozenset(node.zone for node in nodes.values() if node.capacity is Capacity.ON_DEMAND and node.zone)


def single_zone_warning(workload: Workload, nodes: Nodes) -> str:
    """Return a warning if one zone holds all on-demand pods, of several, although there are more zones; else empty."""
    held = [
        nodes[pod.node].zone
        for pod in workload.live_pods
        if pod.node in nodes and effective_capacity(pod, nodes) is Capacity.ON_DEMAND
    ]
    if len(held) < max(2, workload.target) or len(set(held)) > 1 or not held[0]:
        return ""
    return f"all on-demand pods are in zone {held[0]}; add topology spread constraints to the workload"


def leader_on_spot_messages(workload: Workload, nodes: Nodes, leaders: Collection[str]) -> Iterator[str]:
    """Yield a message for each leader on spot while a ready replica is on demand; no failover is forced."""
    for leader in (pod for pod in workload.live_pods if pod.uid in leaders):
        others = [pod for pod in workload.live_pods if pod.ready and pod.uid != leader.uid]
        if effective_on_demand_count([leader], nodes) == 0 and effective_on_demand_count(others, nodes):
            yield f"the leader {leader.key} runs on a spot node, although other ready replicas are on demand"
