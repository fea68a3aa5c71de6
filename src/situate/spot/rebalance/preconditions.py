"""Preconditions of an action, checked on live objects right before its write.

A decision is based on the watches. Later changes can void an action, but never turn it into another one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, assert_never

from situate.objects.kinds.pods import Pod
from situate.spot.admission.patch import DEFAULT_EVICTION_S, Operation
from situate.spot.model.actions import (
    POLICY_REASONS,
    Action,
    Delete,
    Evict,
    Reason,
    Release,
    SetCost,
    ShortenTolerations,
)
from situate.spot.model.counts import Nodes
from situate.spot.model.maintenance_windows import any_window_open
from situate.spot.model.misplaced_pods import (
    BlockReason,
    Workload,
    blocking_reason,
    find_misplaced_pods,
    required_steady_time,
)
from situate.spot.model.pods_nodes_workloads import PodFacts
from situate.spot.model.policy_limits import Limits

_ENDING_NODE = frozenset((Reason.EVACUATE, Reason.DEAD_NODE))
_WAITING_POD = frozenset((Reason.SURGE, Reason.DEGRADE))
_RELEASED_POD = frozenset((Reason.REPLACED, Reason.ORPHANED))
_COUNT_BASED = frozenset((Reason.TO_ON_DEMAND, Reason.TO_SPOT, Reason.RETURN, Reason.REPAIR))
"""Moves that follow from the number of on-demand pods."""
_UPWARDS = frozenset((Reason.TO_ON_DEMAND, Reason.REPAIR))
"""Counted moves that increase the number."""


def obsolete_reason(action: Action, pod: PodFacts, nodes: Nodes) -> str:
    """Return why the action is no longer needed; empty if it is still valid. `pod` is read live."""
    if pod.uid != action.uid:
        return "another pod has the name now"
    if not pod.active:
        return "the pod is terminating already"
    match action:
        case Evict() | Delete():
            return _obsolete_end_reason(action.reason, pod, nodes)
        case Release():
            return "the pod is released already" if pod.released else _obsolete_end_reason(action.reason, pod, nodes)
        case SetCost():
            return "the pod has this deletion cost already" if pod.cost == action.cost else ""
        case ShortenTolerations():
            return (
                ""
                if any(_is_default_toleration(key, seconds, action) for key, seconds in pod.evicting)
                else "the pod has these tolerations already"
            )
        case _:
            assert_never(action)


def move_refusal(
    action: Evict | Delete | Release,
    workload: Workload,
    nodes: Nodes,
    now: float,
    limits: Limits,
    *,
    wave: bool = False,
    overdue: bool = False,
    disruptions_allowed: int | None = None,
    leaders: Collection[str] = (),
) -> str:
    """Return why a move that can wait is not allowed on the current workload; empty if it is.

    Urgent moves are always allowed. A pod may leave to make space (B19) while another pod of its workload waits.
    """
    makes_room = action.reason is Reason.MAKE_ROOM
    if action.reason not in POLICY_REASONS and not makes_room:
        return ""
    pod = next((each for each in workload.pods if each.uid == action.uid), None)
    if pod is None:
        return "the pod no longer belongs to the workload"
    why = blocking_reason(
        workload,
        now,
        wave=wave,
        overdue=overdue,
        disruptions_allowed=disruptions_allowed,
        cool_down_s=0.0 if makes_room else required_steady_time(pod, now, limits.evictions.cool_down_s),
    )
    if why is not None and not (makes_room and why is BlockReason.PENDING):
        return str(why)
    if action.reason in POLICY_REASONS and not any_window_open(limits.windows, now):
        return str(BlockReason.WINDOW)
    if action.reason in _COUNT_BASED:
        found = find_misplaced_pods(workload, nodes, leaders)
        lacks = found.need > 0 if action.reason in _UPWARDS else found.need < 0
        if not lacks or all(each.uid != action.uid for each in found.candidates):
            return "the workload no longer requires the move of the pod"
    return ""


def toleration_patch(pod: Pod, action: ShortenTolerations) -> tuple[Operation, ...]:
    """Return a JSON Patch for this pod only that shortens its default tolerations.

    The API server lets only `tolerationSeconds` of a running pod's toleration change. Rule: B25.
    """
    changes: list[Operation] = [{"op": "test", "path": "/metadata/uid", "value": action.uid}]
    for number, toleration in enumerate(pod.spec.tolerations):
        if _is_default_toleration(toleration.key, toleration.toleration_seconds, action):
            path = f"/spec/tolerations/{number}"
            changes.append({"op": "test", "path": f"{path}/key", "value": toleration.key})
            changes.append({"op": "replace", "path": f"{path}/tolerationSeconds", "value": action.seconds})
    return tuple(changes)


def _obsolete_end_reason(reason: Reason, pod: PodFacts, nodes: Nodes) -> str:
    if reason in _ENDING_NODE:
        node = nodes.get(pod.node)
        return "" if node is not None and node.ending else "the node of the pod is no longer ending"
    if reason in _WAITING_POD:
        return f"the pod has the node {pod.node} now" if pod.node else ""
    if reason in _RELEASED_POD:
        return "" if pod.released else "the pod belongs to its ReplicaSet again"
    return "the pod is released already" if pod.released else ""


def _is_default_toleration(key: str, seconds: Any, action: ShortenTolerations) -> bool:
    return key in action.keys and seconds == DEFAULT_EVICTION_S
