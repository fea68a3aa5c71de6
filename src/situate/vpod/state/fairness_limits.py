"""Rules that keep a vpod from using free capacity: quota, fairness between namespaces, priorities.

The rules only limit additions, and never remove running vreplicas. All amounts are units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from situate.objects.values.counts import format_count
from situate.vpod.model.options import Fairness
from situate.vpod.model.pod_classes import Cause
from situate.vpod.state.state import State
from situate.vpod.state.vpod_view import VPodView


class Rule(StrEnum):
    """A rule that may cause a shortage despite free capacity; the reasons of conditions and Events."""

    WEIGHT = "WeightExceedsCapacity"
    QUOTA = "QuotaExceeded"
    FAIRNESS = "FairShareReached"
    PRIORITY = "HigherPriorityWaits"
    TOPOLOGY = "TopologyRequired"
    PREDICATES = "PredicatesRefuse"


@dataclass(frozen=True, slots=True)
class Limit:
    """The number of vreplicas that may be added at most; the message contains the numbers."""

    vreplicas: int
    rule: Rule
    message: str


def strictest_limit(situation: VPodView, namespace: str, priority: int, held: int) -> Limit | None:
    """Return the strictest limit for a vpod that already holds `held` vreplicas; None if no rule limits it."""
    state, weight = situation.state, situation.weight
    options = state.options
    if not options.safe:
        return None
    if weight > options.capacity:
        message = f"a vreplica of weight {weight} is larger than any pod, because podCapacity is {options.capacity}"
        return Limit(0, Rule.WEIGHT, message)
    limits = []
    entry = situation.entry
    others = state.used[namespace] - (entry.reserved_total * entry.weight if entry is not None else 0)
    if options.namespace_max_share is not None:
        quota = namespace_quota(state)
        room = max(0, quota - others - held * weight) // weight
        limits.append(Limit(room, Rule.QUOTA, f"namespace {namespace} may take {format_count(quota, 'unit')}"))
    if options.fairness is Fairness.MAXMIN:
        share = fair_shares(state).get(namespace)
        if share is not None:
            room = max(0, share - others - held * weight) // weight
            limits.append(
                Limit(room, Rule.FAIRNESS, f"the fair share of namespace {namespace} is {format_count(share, 'unit')}")
            )
    if state.pending and max(state.pending) > priority:
        waiting = sum(units for other, units in state.pending.items() if other > priority)
        room = max(0, free_units(state) - waiting) // weight
        limits.append(Limit(room, Rule.PRIORITY, f"vpods of higher priority wait for {format_count(waiting, 'unit')}"))
    return min(limits, key=lambda each: each.vreplicas, default=None)


def namespace_free_units(state: State, namespace: str) -> int | None:
    """Return the units that quota and fair share leave to a namespace, negative above them; None: no limit."""
    limits = []
    if state.options.namespace_max_share is not None:
        limits.append(namespace_quota(state))
    if state.options.fairness is Fairness.MAXMIN and (share := fair_shares(state).get(namespace)) is not None:
        limits.append(share)
    return min(limits) - state.used[namespace] if limits else None


def free_units(state: State) -> int:
    """Return the units that may still be added on accepting Pods."""
    return sum(state.free_units(ordinal) for ordinals in state.open.values() for ordinal in ordinals)


def namespace_quota(state: State) -> int:
    """Return the units that one namespace may use.

    The quota is a share of `maxReplicas` x capacity. Without `maxReplicas` it is a share of the Pods' capacity or of
    the total demand, whichever is larger. The Pods' capacity alone would fall with every scale-down that the quota
    causes.
    """
    options = state.options
    assert options.namespace_max_share is not None
    if options.max_replicas is not None:
        total = options.max_replicas * options.capacity
    else:
        total = max(state.replicas * options.capacity, state.wants.total())
    return int(total * options.namespace_max_share)


def demand_within_quotas(state: State) -> Mapping[str, int]:
    """Return the units that each namespace asks for, cut to its quota."""
    if state.options.namespace_max_share is None:
        return state.wants
    quota = namespace_quota(state)
    return {namespace: min(units, quota) for namespace, units in state.wants.items()}


def fair_shares(state: State) -> Mapping[str, int]:
    """Return the max-min shares by namespace while the demand exceeds the accepting Pods; empty otherwise.

    No namespace gets more than it asks for. The rest is divided equally; single units left over go in name order.
    """
    wants = demand_within_quotas(state)
    room = state.causes[Cause.NONE] * state.options.capacity
    if sum(wants.values()) <= room:
        return {}
    shares: dict[str, int] = {}
    modest = sorted(wants, key=lambda namespace: (wants[namespace], namespace))
    for index, namespace in enumerate(modest):
        equal = room // (len(modest) - index)
        if wants[namespace] > equal:
            greedy = sorted(modest[index:])
            over = room - equal * len(greedy)
            shares.update({each: equal + (place < over) for place, each in enumerate(greedy)})
            break
        shares[namespace] = wants[namespace]
        room -= wants[namespace]
    return shares
