"""What is remembered of a move: whether it went well, was refused, or left a pod without node or class (B11, B26)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from situate.spot.model.counts import Nodes, on_demand_effective
from situate.spot.model.misplaced import Workload
from situate.spot.model.policy_limits import Limits
from situate.spot.rebalance.capacity_shortage import remembered
from situate.spot.workloads.cluster_view import Memory

REFUSED_S: Final = 15.0
"""A pod that is still as it was so long after we moved it was not moved: the API has refused."""


GIVEN_UP_S: Final = 600.0
"""A workload that is not whole so long after a move waits for itself alone, and no other workload for it (B12)."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The memory of now."""

    memory: Memory
    stopped: str = ""
    """Why the workload is left alone from now on; empty if it is not."""


def followed(workload: Workload, memory: Memory, nodes: Nodes, limits: Limits, now: float) -> Followed:
    """What has become of the workload's last move, and of what a shortage had it remember."""
    memory = remembered(workload, memory)
    if not memory.moved:
        return Followed(memory)
    live = workload.live
    if any(pod.uid == memory.moved for pod in live):
        refused = now - memory.moved_at >= REFUSED_S
        return Followed(replace(memory, moved="") if refused else memory)
    since = int(memory.moved_at)  # times of objects are whole seconds
    whole = len(live) == workload.owner.replicas and all(pod.ready for pod in live)
    if whole and not any(pod.terminating or (pod.released and pod.active) for pod in workload.pods):
        come = [pod for pod in live if pod.created >= since]
        if any(pod.pod_class is None for pod in come):
            return _failed(memory, limits, now, "brought a pod that nobody classed")
        lacks = on_demand_effective(live, nodes) < workload.target
        if memory.raising and lacks and come and not on_demand_effective(come, nodes):
            return _failed(memory, limits, now, "brought a pod that is not on demand, as another system may have it")
        wait = 0.0 if memory.returned_at == memory.moved_at else memory.return_wait_s
        return Followed(replace(memory, moved="", failures=0, return_wait_s=wait))
    pending = [pod for pod in live if not pod.node and pod.created >= since]
    if any(now - pod.created >= limits.pend_s for pod in pending):
        return _failed(memory, limits, now, "left a pod without a node")
    if now - memory.moved_at >= GIVEN_UP_S:
        return _failed(memory, limits, now, "left a workload that did not get whole again")
    return Followed(memory)


def _failed(memory: Memory, limits: Limits, now: float, how: str) -> Followed:
    """A replacement waits for a node for too long, or came while nobody answered and stands wrong again."""
    wait = memory.return_wait_s
    if memory.returned_at == memory.moved_at:
        wait = min(limits.longest_wait_s, 2 * max(wait, limits.return_every_s))
    memory = replace(memory, moved="", failures=memory.failures + 1, return_wait_s=wait)
    if memory.failures < limits.failures:
        return Followed(memory)
    message = f"{memory.failures} moves in a row {how}; none follow for {limits.stop_s:g} s"
    return Followed(replace(memory, failures=0, stopped_until=now + limits.stop_s), message)
