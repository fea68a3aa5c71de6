"""Follow-up of a workload's last move: succeeded, refused, or a replacement without node or class.

Rules: B11, B26.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from situate.spot.model.counts import Nodes, effective_on_demand_count
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.policy_limits import Limits
from situate.spot.rebalance.capacity_shortage import clear_ended_surge
from situate.spot.workloads.cluster_objects import WorkloadMemory

REFUSAL_S: Final = 15.0
"""A pod that is unchanged this long after its move was not moved: the API has refused."""


GIVE_UP_S: Final = 600.0
"""A workload that is still incomplete this long after a move no longer delays other workloads (B12)."""


@dataclass(frozen=True, slots=True)
class MoveFollowUp:
    """Memory after the follow-up."""

    memory: WorkloadMemory
    stopped: str = ""
    """Reason for stopping the workload's moves; empty if they continue."""


def follow_up_move(
    workload: Workload, memory: WorkloadMemory, nodes: Nodes, limits: Limits, now: float
) -> MoveFollowUp:
    """Return the memory after the workload's last move and after a shortage."""
    memory = clear_ended_surge(workload, memory)
    if not memory.moved:
        return MoveFollowUp(memory)
    live = workload.live_pods
    if any(pod.uid == memory.moved for pod in live):
        refused = now - memory.moved_at >= REFUSAL_S
        return MoveFollowUp(replace(memory, moved="") if refused else memory)
    since = int(memory.moved_at)  # times of objects are whole seconds
    whole = len(live) == workload.owner.replicas and all(pod.ready for pod in live)
    if whole and not any(pod.terminating or (pod.released and pod.active) for pod in workload.pods):
        come = [pod for pod in live if pod.created >= since]
        if any(pod.pod_class is None for pod in come):
            return _record_failure(memory, limits, now, "the new pod has no class")
        lacks = effective_on_demand_count(live, nodes) < workload.target
        if memory.raising and lacks and come and not effective_on_demand_count(come, nodes):
            return _record_failure(memory, limits, now, "the new pod is not on demand, maybe because of another system")
        wait = 0.0 if memory.returned_at == memory.moved_at else memory.return_wait_s
        return MoveFollowUp(replace(memory, moved="", failures=0, return_wait_s=wait))
    pending = [pod for pod in live if not pod.node and pod.created >= since]
    if any(now - pod.created >= limits.pend_s for pod in pending):
        return _record_failure(memory, limits, now, "a new pod got no node")
    if now - memory.moved_at >= GIVE_UP_S:
        return _record_failure(memory, limits, now, "the workload did not become ready again")
    return MoveFollowUp(memory)


def _record_failure(memory: WorkloadMemory, limits: Limits, now: float, how: str) -> MoveFollowUp:
    """Record a failed move: its replacement has no node for too long, no class, or the wrong capacity."""
    wait = memory.return_wait_s
    if memory.returned_at == memory.moved_at:
        wait = min(limits.returns.longest_wait_s, 2 * max(wait, limits.returns.every_s))
    memory = replace(memory, moved="", failures=memory.failures + 1, return_wait_s=wait)
    if memory.failures < limits.evictions.failures:
        return MoveFollowUp(memory)
    message = (
        f"{memory.failures} moves in a row failed, the last one because {how}; "
        f"no pod of the workload moves for {limits.evictions.stop_s:g} s"
    )
    return MoveFollowUp(replace(memory, failures=0, stopped_until=now + limits.evictions.stop_s), message)
