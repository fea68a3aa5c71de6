"""Relief for on-demand pods that find no free capacity.

During a rollout the revision's surplus goes to spot until an old on-demand pod has left. Otherwise an overflowed pod
gives up its place. If neither helps, the pod waits, or after a while runs on spot as a debt. The debt is repaid when
on-demand nodes have free capacity. Rules: B17, B18, B19.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from situate.spot.capacity.free_capacity import FreeCapacity
from situate.spot.model.actions import Delete, Evict, Move, Reason
from situate.spot.model.counts import Nodes, effective_capacity, effective_on_demand_count
from situate.spot.model.misplaced_pods import BlockReason, Workload, blocking_reason
from situate.spot.model.pods_nodes_workloads import Capacity, PodFacts
from situate.spot.model.policy_limits import Limits
from situate.spot.workloads.cluster_objects import WorkloadMemory
from situate.spot.workloads.deletion_cost import removal_order


@dataclass(frozen=True, slots=True)
class ShortageRelief:
    """Moves, and the new memory of the workload with the shortage."""

    moves: tuple[Move, ...]
    memory: WorkloadMemory


def pods_without_capacity(workload: Workload, now: float, waiting_s: float) -> list[PodFacts]:
    """Return the on-demand pods that have had no node for at least `waiting_s`, the oldest first."""
    pods = [
        pod
        for pod in workload.live_pods
        if not pod.node and not pod.gated and pod.pod_class is Capacity.ON_DEMAND and now - pod.created >= waiting_s
    ]
    return sorted(pods, key=lambda pod: (pod.created, pod.key.name))


def clear_ended_surge(workload: Workload, memory: WorkloadMemory) -> WorkloadMemory:
    """Clear the surge state if the old pod of the surge has left, or if the rollout has ended."""
    present = {pod.uid for pod in workload.live_pods}
    if memory.surge_revision and (memory.yielding not in present or not workload.owner.rolling):
        return replace(memory, surge_revision="", yielding="", surged="", surged_at=0.0)
    return memory


def surge_relief(
    workload: Workload, nodes: Nodes, now: float, memory: WorkloadMemory, limits: Limits
) -> ShortageRelief | None:
    """Delete a rollout's pending on-demand pod while the old pods hold the floor; None in all other states.

    One pod is deleted for each old pod that will leave. While that old pod is present, only two kinds of deletions
    follow: a repeat, or the deletion of a later pod. Such a pod was created on demand again, and must wait as long as
    the first pod. Rule: B17.
    """
    owner = workload.owner
    if owner.stateful or not owner.rolling:
        return None
    waiting = [pod for pod in pods_without_capacity(workload, now, limits.pend_s) if pod.revision == owner.revision]
    bound = [pod for pod in workload.live_pods if pod.node]
    old = [
        pod for pod in bound if pod.revision != owner.revision and effective_capacity(pod, nodes) is Capacity.ON_DEMAND
    ]
    if not waiting or not old or effective_on_demand_count(bound, nodes) < workload.target:
        return None
    if memory.surge_revision:
        since = int(memory.surged_at)  # times of objects are whole seconds
        waiting = [pod for pod in waiting if pod.uid == memory.surged or pod.created > since]
        if not waiting:
            return None
    gone = waiting[0]
    move = Delete(gone.key, gone.uid, owner.uid, Reason.SURGE)
    if gone.uid == memory.surged:
        return ShortageRelief((move,), memory)
    memory = replace(memory, surged=gone.uid, surged_at=now)
    if memory.surge_revision:
        return ShortageRelief((move,), memory)
    yielding = removal_order(old, workload.live_pods, now)[0]
    return ShortageRelief((move,), replace(memory, surge_revision=owner.revision, yielding=yielding.uid))


def eviction_for_capacity(
    workload: Workload,
    others: Sequence[Workload],
    nodes: Nodes,
    now: float,
    room: FreeCapacity,
    limits: Limits,
    leaders: Iterable[str] = (),
) -> Evict | None:
    """Evict an overflowed spot-class pod that fits on spot, in favour of a waiting on-demand pod.

    The waiting pod's own workload is checked first, then the others in their order. None if no pod can leave. Rule:
    B19.
    """
    waiting = pods_without_capacity(workload, now, limits.pend_s)
    if not waiting or room.fits(waiting[0], Capacity.ON_DEMAND):
        return None
    kept = frozenset(leaders)
    for other in (workload, *(each for each in others if each.owner.uid != workload.owner.uid)):
        own = other.owner.uid == workload.owner.uid
        blocked = blocking_reason(other, now, cool_down_s=0 if own else limits.evictions.cool_down_s)
        if blocked is not None and not (own and blocked is BlockReason.PENDING):
            continue
        for pod in _overflowed_pods(other, nodes):
            if pod.uid in kept or not room.fits(pod, Capacity.SPOT):
                continue
            if room.fits(waiting[0], Capacity.ON_DEMAND, without=pod):
                return Evict(pod.key, pod.uid, other.owner.uid, Reason.MAKE_ROOM)
    return None


def degradation_relief(workload: Workload, now: float, memory: WorkloadMemory, limits: Limits) -> ShortageRelief | None:
    """Replace a pod that has waited too long by one that may run on spot; None if degrading is off or not needed.

    Rule: B18.
    """
    if limits.degrade_after_s is None or workload.owner.stateful or workload.owner.rolling:
        return None
    waiting = pods_without_capacity(workload, now, limits.degrade_after_s)
    if not waiting:
        return None
    move = Delete(waiting[0].key, waiting[0].uid, workload.owner.uid, Reason.DEGRADE)
    lacking = max(0, memory.debt - _on_demand_surplus(workload))
    debt = min(memory.debt + 1, lacking)  # a pod whose deletion was refused is not owed twice
    return ShortageRelief((move,), replace(memory, debt=debt, moved=move.uid, moved_at=now, raising=False))


def repay_debt(workload: Workload, memory: WorkloadMemory, room: FreeCapacity) -> WorkloadMemory:
    """Repay one pod of the debt if no pod waits and on-demand nodes have free capacity.

    Pods that have found on-demand places after all, even at the last moment, are no longer owed.
    """
    if memory.debt > 0 and (beyond := _on_demand_surplus(workload)) > 0:
        return replace(memory, debt=max(0, memory.debt - beyond))
    if memory.debt <= 0 or any(not pod.node for pod in workload.live_pods):
        return memory
    candidate = next((pod for pod in workload.live_pods if pod.pod_class is Capacity.SPOT), None)
    if candidate is not None and not room.fits(candidate, Capacity.ON_DEMAND):
        return memory
    return replace(memory, debt=memory.debt - 1)


def _on_demand_surplus(workload: Workload) -> int:
    """Count the placed on-demand pods beyond the target that remains after the debt; negative if pods are missing."""
    return sum(bool(pod.node) and _is_required_on_demand(pod) for pod in workload.live_pods) - workload.target


def _overflowed_pods(workload: Workload, nodes: Nodes) -> list[PodFacts]:
    """Return the spot-class pods on on-demand nodes beyond the target, the youngest first."""
    held = [pod for pod in workload.live_pods if pod.node and effective_capacity(pod, nodes) is Capacity.ON_DEMAND]
    surplus = (
        len(held) - workload.target + sum(not pod.node for pod in workload.live_pods if _is_required_on_demand(pod))
    )
    spot = [pod for pod in held if pod.pod_class is Capacity.SPOT and pod.ready]
    if workload.owner.pinned is Capacity.ON_DEMAND or surplus <= 0:
        return []
    return sorted(spot, key=lambda pod: (-pod.created, pod.key.name))


def _is_required_on_demand(pod: PodFacts) -> bool:
    """Return whether the pod is on demand once it is placed, so that it can replace a leaving pod."""
    return pod.pod_class is Capacity.ON_DEMAND
