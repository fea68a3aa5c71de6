"""Autoscaler and compaction of the policy era, which grow and compact by a factor of Pods.

The factor depends on the number of nodes or zones. The rules are in "Autoscaler" and "Compaction, eviction and drain"
of `docs/spec/vpod.md`. Upstream: pkg/scheduler/statefulset/autoscaler.go of knative/eventing v0.43.0.
"""

from __future__ import annotations

from collections.abc import Iterable

from situate.vpod.knative_era.schedule import MaxFillUp, PredicatesAndPriorities
from situate.vpod.knative_era.state import EraState
from situate.vpod.model.vpod import Key, Placement, VPod, ordinal_of
from situate.vpod.policy.registry import AVAILABILITY_NODE, AVAILABILITY_ZONE, EVEN_POD_SPREAD, Policy


def scale_factor(state: EraState, placing: Policy | None) -> int:
    """Return how many Pods the StatefulSet gains or loses at a time; 1 if no node is known."""
    if placing is not None and placing.has_priority(AVAILABILITY_NODE):
        return max(1, len(state.zone_of_node))
    if placing is not None and placing.has_priority(AVAILABILITY_ZONE):
        return max(1, len(set(state.zone_of_node.values())))
    return 1


def era_replicas(state: EraState, mode: MaxFillUp | PredicatesAndPriorities, may_shrink: bool) -> int:
    """Return the replicas that one round of the autoscaler asks for."""
    capacity = state.cluster.capacity
    if isinstance(mode, MaxFillUp):
        wanted = _ceil_div(sum(state.expected.values()), capacity)
    else:
        # at least one above the last ordinal in use, so upstream's lower bound of the last ordinal never applies
        wanted = state.last_ordinal + 1 + _pods_for_pending(state, mode.placing)
    return wanted if may_shrink else max(wanted, state.cluster.replicas)


def _pods_for_pending(state: EraState, placing: Policy | None) -> int:
    """Return the Pods that the pending vreplicas need, rounded up to whole factors."""
    pending = sum(state.pending.values())
    factor = scale_factor(state, placing)
    room = state.cluster.capacity
    if placing is not None and placing.has_predicate(EVEN_POD_SPREAD):
        # the fullest Pod with free capacity limits an even spread
        room = min((free for free in state.free.values() if 0 < free < room), default=room)
    return _ceil_div(_ceil_div(pending, room), factor) * factor


def era_compaction(
    state: EraState, vpods: Iterable[VPod], mode: MaxFillUp | PredicatesAndPriorities
) -> list[tuple[Key, Placement]]:
    """Return the evictions in order: everything on the last ordinals, if the other schedulable Pods can hold it.

    The caller asks only when the period since the last compaction has passed. As `MaxFillUp`, this is also the rule of
    v0.43.1.
    """
    placing = None if isinstance(mode, MaxFillUp) else mode.placing
    if placing is None and not isinstance(mode, MaxFillUp):
        return []
    factor = scale_factor(state, placing)
    last = state.last_ordinal
    if last < 1 or len(state.node_of_pod) <= factor:
        return []
    # the free capacity of the last ordinals is on both sides of upstream's comparison and cancels out
    if state.free_capacity() < state.cluster.capacity * factor:
        return []
    if placing is not None and state.cluster.replicas - factor < factor:
        return []
    going = range(last - factor + 1, last + 1)
    return [
        (vpod.key, placement)
        for vpod in vpods
        for placement in reversed(vpod.placements)
        if ordinal_of(placement.pod_name, state.cluster.statefulset) in going
    ]


def _ceil_div(amount: int, size: int) -> int:
    return -(-amount // size)
