"""Compute the size of each ReplicaSet of a Deployment.

Upstream: rolling.go, recreate.go, and the proportional scaling of sync.go.
"""

from __future__ import annotations

from situate.cluster.controllers.workloads.deployment.rollout import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    OwnedReplicaSet,
    Rollout,
    parse_number,
    round_half_away,
    total_replicas,
)

Sizes = list[tuple[OwnedReplicaSet, int]]
"""ReplicaSets with their target size, in the order of the writes."""


def new_size(plan: Rollout, present: int) -> int:
    """Return the size of the new ReplicaSet, which has `present` replicas now (upstream: NewRSNewReplicas)."""
    if not plan.rolling:
        return plan.replicas
    if present > plan.replicas:
        return plan.replicas
    room = plan.replicas + plan.max_surge - total_replicas(plan.replica_sets)
    return present + max(0, min(room, plan.replicas - present))


def old_sizes(plan: Rollout) -> Sizes:
    """Return the old ReplicaSets to shrink in a rolling update.

    Unhealthy replicas go first, then others as availability allows.
    """
    new = plan.new
    assert new is not None
    least = plan.replicas - plan.max_unavailable
    room = total_replicas(plan.replica_sets) - least - (new.size - new.count("availableReplicas"))
    if room <= 0:
        return []
    sizes = {entry.uid: entry.size for entry in plan.active_old}
    for entry in plan.active_old:
        dead = min(room, max(0, entry.size - entry.count("availableReplicas")))
        sizes[entry.uid] -= dead
        room -= dead
    spare = sum(entry.count("availableReplicas") for entry in plan.replica_sets) - least
    for entry in plan.active_old:
        if spare <= 0:
            break
        less = min(sizes[entry.uid], spare)
        sizes[entry.uid] -= less
        spare -= less
    return [(entry, sizes[entry.uid]) for entry in plan.active_old if sizes[entry.uid] != entry.size]


def is_scaling_event(plan: Rollout) -> bool:
    """Return whether the Deployment's replicas changed since its ReplicaSets were last sized."""
    for entry in plan.replica_sets:
        desired = parse_number(entry.annotations.get(DESIRED_REPLICAS, ""))
        if entry.size > 0 and desired is not None and desired != plan.replicas:
            return True
    return False


def scaled_sizes(plan: Rollout) -> Sizes:
    """Return the sizes after a change of the Deployment's replicas, or in a pause.

    The sizes are proportional if several ReplicaSets are active.
    """
    only = _active_or_latest(plan)
    if only is not None:
        return [(only, plan.replicas)] if only.size != plan.replicas else []
    if _is_saturated(plan):
        return [(entry, 0) for entry in plan.active_old]
    return _proportional_sizes(plan) if plan.rolling else []


def _active_or_latest(plan: Rollout) -> OwnedReplicaSet | None:
    active = [entry for entry in plan.replica_sets if entry.size > 0]
    if len(active) > 1:
        return None
    if active:
        return active[0]
    return plan.new or (plan.old[-1] if plan.old else None)


def _is_saturated(plan: Rollout) -> bool:
    new = plan.new
    if new is None or parse_number(new.annotations.get(DESIRED_REPLICAS, "")) != plan.replicas:
        return False
    return new.size == plan.replicas and new.count("availableReplicas") == plan.replicas


def _proportional_sizes(plan: Rollout) -> Sizes:
    active = [entry for entry in plan.replica_sets if entry.size > 0]
    allowed = plan.replicas + plan.max_surge if plan.replicas > 0 else 0
    more = allowed - total_replicas(active)
    active.sort(key=lambda entry: entry.age_key, reverse=more > 0)
    active.sort(key=lambda entry: -entry.size)
    sizes: Sizes = []
    added = 0
    for entry in active:
        part = _proportion(plan, entry, more, added)
        added += part
        sizes.append((entry, entry.size + part))
    if sizes and more:
        largest, size = sizes[0]
        sizes[0] = (largest, max(0, size + more - added))
    return sizes


def _proportion(plan: Rollout, entry: OwnedReplicaSet, more: int, added: int) -> int:
    if more in (0, added):
        return 0
    fraction = _fraction(plan, entry)
    return min(fraction, more - added) if more > 0 else max(fraction, more - added)


def _fraction(plan: Rollout, entry: OwnedReplicaSet) -> int:
    if plan.replicas == 0:
        return -entry.size
    before = parse_number(entry.annotations.get(MAX_REPLICAS, "")) or plan.status.get("replicas", 0)
    if not before:
        return 0
    return round_half_away(entry.size * (plan.replicas + plan.max_surge) / before) - entry.size
