"""Autoscaler and compaction of the policy era, which know nodes and zones: they go by a factor of pods at a time.

Reference sections 6 and 7. Upstream: pkg/scheduler/statefulset/autoscaler.go of knative/eventing v0.43.0.
"""

from __future__ import annotations

from collections.abc import Iterable

from situate.vpod.knative_era.schedule import MaxFillUp, PredicatesAndPriorities
from situate.vpod.knative_era.state import EraState
from situate.vpod.model.vpod import Key, Placement, VPod, ordinal_of
from situate.vpod.policy.registry import AVAILABILITY_NODE, AVAILABILITY_ZONE, EVEN_POD_SPREAD, Policy


def scale_factor(state: EraState, placing: Policy | None) -> int:
    """By how many pods the StatefulSet grows or is compacted at a time; 1 where no node is known."""
    if placing is not None and placing.has_priority(AVAILABILITY_NODE):
        return max(1, len(state.zone_of_node))
    if placing is not None and placing.has_priority(AVAILABILITY_ZONE):
        return max(1, len(set(state.zone_of_node.values())))
    return 1


def era_replicas(state: EraState, mode: MaxFillUp | PredicatesAndPriorities, may_shrink: bool) -> int:
    """The replicas that one beat asks for."""
    capacity = state.cluster.capacity
    if isinstance(mode, MaxFillUp):
        wanted = _ceil_div(sum(state.expected.values()), capacity)
    else:
        # at least one above the last ordinal in use, so upstream's guard against going below it never acts
        wanted = state.last_ordinal + 1 + _more_pods(state, mode.placing)
    return wanted if may_shrink else max(wanted, state.cluster.replicas)


def _more_pods(state: EraState, placing: Policy | None) -> int:
    """Pods for what is pending, in whole factors."""
    pending = sum(state.pending.values())
    factor = scale_factor(state, placing)
    room = state.cluster.capacity
    if placing is not None and placing.has_predicate(EVEN_POD_SPREAD):
        # an even spread is held back by the fullest pod that still has room
        room = min((free for free in state.free.values() if 0 < free < room), default=room)
    return _ceil_div(_ceil_div(pending, room), factor) * factor


def era_compaction(
    state: EraState, vpods: Iterable[VPod], mode: MaxFillUp | PredicatesAndPriorities
) -> list[tuple[Key, Placement]]:
    """What to evict, in order: everything on the last ordinals, if the other schedulable pods have room for it.

    Asked when the period since the last compaction has passed. Also the rule of v0.43.1, as `MaxFillUp`.
    """
    placing = None if isinstance(mode, MaxFillUp) else mode.placing
    if placing is None and not isinstance(mode, MaxFillUp):
        return []
    factor = scale_factor(state, placing)
    last = state.last_ordinal
    if last < 1 or len(state.node_of_pod) <= factor:
        return []
    # the last ordinals' own room is on both sides of upstream's comparison and drops out
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
