"""Pods on ending nodes: make-before-break, evacuation and the end of released pods.

A serving pod of a Deployment on a doomed node leaves its ReplicaSet by a label. The replacement starts at once, and the
old pod goes on serving. Any replica can finish the move from the pod's annotations. Other tools drain the nodes
themselves. Rules: B20 to B23, B25, B45.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from situate.objects.selection.label_selectors import Selector
from situate.objects.values.timestamps import rfc3339
from situate.spot.admission.patch import DEFAULT_EVICTION_S, MOST_AVOIDED
from situate.spot.model.actions import Action, Delete, Evict, Move, Reason, Release, ShortenTolerations
from situate.spot.model.counts import Nodes
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import (
    DEADLINE,
    DECISION,
    RELEASED_PREFIX,
    Capacity,
    NodeFacts,
    NodeState,
    Owner,
    PodFacts,
)
from situate.spot.model.policy_limits import Limits

MARGIN_S: Final = 5.0
"""Time reserved before the latest moment at which a pod can still end in time."""
_TIMER_TOLERANCE_S: Final = 0.001
"""A timer may fire this much too early; the moment then counts as reached."""
WITHOUT_DEADLINE_S: Final = 600.0
"""Longest time for which a released pod serves if the end of its node is unknown."""
_FAIL_SAFE_S: Final = 30
"""This long after its deadline a released pod ends even if no replica of situate is left."""


FitsElsewhere: TypeAlias = Callable[[PodFacts], bool]
"""Whether a pod would find a place on a node that does not end."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A Service, NetworkPolicy or PodDisruptionBudget, with the pods that it selects."""

    kind: str
    namespace: str
    name: str
    selector: Selector
    disruptions_allowed: int | None = None
    """For a budget; None for the others."""

    def selects(self, pod: PodFacts) -> bool:
        return self.namespace == pod.key.namespace and self.selector.matches(pod.labels)

    def selects_by_key(self, key: str) -> bool:
        return any(requirement.key == key for requirement in self.selector.requirements)


@dataclass(frozen=True, slots=True)
class MoveConstraints:
    """Other objects and states that constrain moves."""

    guards: tuple[Guard, ...] = ()
    full_quotas: frozenset[str] = frozenset()
    """Namespaces with a full quota."""
    leaders: frozenset[str] = frozenset()
    """Uids of pods that lead their workload (B45)."""
    _by_namespace: Mapping[str, Sequence[Guard]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_namespace: dict[str, list[Guard]] = {}
        for guard in self.guards:
            by_namespace.setdefault(guard.namespace, []).append(guard)
        object.__setattr__(self, "_by_namespace", by_namespace)

    def guards_of(self, namespace: str) -> Sequence[Guard]:
        """Return the guards of the namespace."""
        return self._by_namespace.get(namespace, ())

    def disruptions_allowed(self, pods: Iterable[PodFacts]) -> int | None:
        """Return the smallest number that the budgets of these pods allow; None without a budget.

        All pods are of one namespace. The API server never evicts a pod that two budgets select.
        """
        listed = list(pods)
        budgets = [
            guard
            for guard in self.guards_of(listed[0].key.namespace if listed else "")
            if guard.disruptions_allowed is not None
        ]
        allowed: int | None = None
        for pod in listed if budgets else ():
            own = [guard.disruptions_allowed or 0 for guard in budgets if guard.selects(pod)]
            if own:
                least = 0 if len(own) > 1 else own[0]
                allowed = least if allowed is None else min(allowed, least)
        return allowed


def is_wave_in_progress(workloads: Iterable[Workload], nodes: Nodes) -> bool:
    """Return whether a cluster-wide wave is in progress: pods on nodes with a deadline, or released pods.

    A node that ends without a deadline, such as a drained one, blocks only the workloads with pods there. Rule: B23.
    """
    return any(
        (pod.live and (node := _ending_node(pod, nodes)) is not None and node.deadline is not None)
        or (pod.released and pod.active)
        for workload in workloads
        for pod in workload.pods
    )


def has_leaving_pods(workload: Workload, nodes: Nodes) -> bool:
    """Return whether the workload has pods on ending nodes, or released pods that have not ended."""
    return any(
        (pod.live and _ending_node(pod, nodes) is not None) or (pod.released and pod.active) for pod in workload.pods
    )


def evacuations(
    workload: Workload, nodes: Nodes, now: float, around: MoveConstraints, limits: Limits, elsewhere: FitsElsewhere
) -> list[Move]:
    """Return the moves now due for pods on ending nodes; a StatefulSet's highest ordinals come first.

    Pods are released even if no place is free for their replacements, unless a released pod of the workload still runs.
    In that case, and for every eviction, a place must be free: a replacement on another ending node gains nothing.
    """
    going = [(pod, node) for pod in workload.live_pods if (node := _ending_node(pod, nodes)) is not None]
    if workload.owner.stateful:
        going.sort(key=lambda each: workload.owner.ordinal(each[0].key.name) or 0, reverse=True)
    else:
        going.sort(key=lambda each: (each[1].deadline or 0.0, each[0].key.name))
    followers = any(pod.uid not in around.leaders for pod, _ in going)
    under_way = any(pod.released and pod.active for pod in workload.pods)
    moves: list[Move] = []
    for pod, node in going:
        if pod.uid in around.leaders and followers and not _time_is_up(pod, node.deadline, now):
            continue  # the leader goes last
        move = _evacuation_move(workload.owner, pod, node, now, around, limits)
        waits = isinstance(move, Evict) or (isinstance(move, Release) and under_way)
        if move is not None and not (waits and not elsewhere(pod)):
            moves.append(move)
    return moves


def _evacuation_move(
    owner: Owner, pod: PodFacts, node: NodeFacts, now: float, around: MoveConstraints, limits: Limits
) -> Move | None:
    """Return the move; None for a pod that started a moment ago if its deadline has come."""
    if node.state is NodeState.DEAD:
        return Delete(pod.key, pod.uid, owner.uid, Reason.DEAD_NODE)
    if _time_is_up(pod, node.deadline, now):
        young = not pod.ready and (pod.started is None or now - pod.started < limits.start_s)
        return None if young else Delete(pod.key, pod.uid, owner.uid, Reason.EVACUATE)
    if release_refusal(owner, pod, node.deadline, now, around, limits):
        return Evict(pod.key, pod.uid, owner.uid, Reason.EVACUATE)
    return build_release(owner, pod, node.deadline, now, Reason.EVACUATE)


def release_refusal(
    owner: Owner, pod: PodFacts, deadline: float | None, now: float, around: MoveConstraints, limits: Limits
) -> str:
    """Return why the pod must be evicted instead of released; empty if it can be released."""
    if not limits.make_before_break:
        return "make-before-break is disabled"
    if not owner.releasable:
        return f"{owner} has no ReplicaSet"
    if not pod.ready:
        return "the pod is not ready"
    if pod.owners != 1:
        return "the pod has other owners"
    if deadline is not None and deadline - now < limits.start_s:
        return f"the replacement takes {limits.start_s:g} s to start, and only {deadline - now:.0f} s remain"
    if pod.key.namespace in around.full_quotas:
        return f"the quota of namespace {pod.key.namespace} is full"
    for guard in around.guards_of(pod.key.namespace):
        if guard.selects(pod) and (guard.disruptions_allowed is not None or guard.selects_by_key(owner.revision_label)):
            return f"{guard.kind} {guard.namespace}/{guard.name} selects the pod"
    return ""


def build_release(owner: Owner, pod: PodFacts, deadline: float | None, now: float, reason: Reason) -> Release:
    """Return the action that takes the pod out of its ReplicaSet, with a fail-safe on the pod itself."""
    until = deadline if deadline is not None else now + WITHOUT_DEADLINE_S
    annotations = {DEADLINE: rfc3339(datetime.fromtimestamp(until, UTC))}
    if not pod.token:
        annotations[DECISION] = f'{{"owner":"{owner.uid}","why":"released"}}'
    ran = now - pod.started if pod.started is not None else 0.0
    patch: dict[str, Any] = {
        "metadata": {
            "uid": pod.uid,
            "labels": {owner.revision_label: f"{RELEASED_PREFIX}{pod.revision}"},
            "annotations": annotations,
        },
        "spec": {"activeDeadlineSeconds": max(1, int(ran + until - now) + _FAIL_SAFE_S)},
    }
    return Release(pod.key, pod.uid, owner.uid, reason, until, patch)


def released_pod_deletions(workload: Workload, nodes: Nodes, now: float) -> list[Move]:
    """Return deletions of released pods that are replaced, past their deadline or no longer serving.

    A pod on an ending node does not count as a replacement.
    """
    released = sorted(
        (pod for pod in workload.pods if pod.released and pod.active),
        key=lambda pod: (pod.deadline or 0.0, pod.key.name),
    )
    serving = sum(pod.ready for pod in workload.live_pods if _ending_node(pod, nodes) is None)
    spare = serving + sum(pod.ready for pod in released) - workload.owner.replicas
    moves: list[Move] = []
    for pod in released:
        over = not pod.ready or _time_is_up(pod, pod.deadline, now)
        if over or spare > 0:
            spare -= pod.ready and not over
            moves.append(Delete(pod.key, pod.uid, workload.owner.uid, Reason.REPLACED))
    return moves


def seconds_until_next_end(workload: Workload, nodes: Nodes, now: float) -> float | None:
    """Return the seconds until the next deadline of a released pod or of a pod on an ending node."""
    deadlines = [(pod, pod.deadline) for pod in workload.pods if pod.released and pod.active]
    deadlines += [(pod, node.deadline) for pod in workload.live_pods if (node := _ending_node(pod, nodes)) is not None]
    ahead = [
        _last_moment(pod, deadline) - now
        for pod, deadline in deadlines
        if deadline is not None and not _time_is_up(pod, deadline, now)
    ]
    return min(ahead, default=None)


def orphan_deletions(pods: Mapping[str, Sequence[PodFacts]], owners: Collection[str]) -> list[Move]:
    """Return deletions of released pods whose workload is gone."""
    return [
        Delete(pod.key, pod.uid, owner, Reason.ORPHANED)
        for owner in sorted(uid for uid in pods if uid not in owners)
        for pod in pods[owner]
        if pod.released and pod.active
    ]


def nodes_to_avoid(nodes: Iterable[NodeFacts]) -> tuple[str, ...]:
    """Return the untainted nodes that new spot pods should avoid: doomed ones first, then at-risk ones."""
    bad = [node for node in nodes if node.state in (NodeState.AT_RISK, NodeState.DOOMED) and not node.tainted]
    bad.sort(key=lambda node: (-node.state, node.name))
    return tuple(sorted(node.name for node in bad[:MOST_AVOIDED]))


def toleration_changes(workload: Workload, seconds: int | None) -> list[Action]:
    """Shorten the default tolerations of running spot pods for lost nodes, if the owner set none."""
    if seconds is None or "" in workload.owner.tolerated:
        return []
    found: list[Action] = []
    for pod in workload.live_pods:
        keys = tuple(
            key
            for key, present in pod.evicting
            if present == DEFAULT_EVICTION_S and key not in workload.owner.tolerated
        )
        if keys and pod.pod_class is Capacity.SPOT:
            found.append(ShortenTolerations(pod.key, pod.uid, workload.owner.uid, keys, seconds))
    return found


def _ending_node(pod: PodFacts, nodes: Nodes) -> NodeFacts | None:
    node = nodes.get(pod.node)
    return node if node is not None and node.ending else None


def _time_is_up(pod: PodFacts, deadline: float | None, now: float) -> bool:
    return deadline is not None and now >= _last_moment(pod, deadline) - _TIMER_TOLERANCE_S


def _last_moment(pod: PodFacts, deadline: float) -> float:
    return deadline - pod.grace_s - MARGIN_S
