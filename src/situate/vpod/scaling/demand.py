"""The number of Pods that the vpods need (safe profile): the demand in units, and the fewest Pods that hold it.

Pods that do not run yet count in full, so the autoscaler never answers an exhausted cluster with more Pods (V22).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from situate.vpod.model.options import Options, PolicyName, Topology
from situate.vpod.model.pod_classes import Cause, PodClass
from situate.vpod.model.records import VPodEntry
from situate.vpod.placement import resize_by_policy
from situate.vpod.placement.decide import effective_target
from situate.vpod.policy.registry import EVEN_POD_SPREAD
from situate.vpod.state.fairness_limits import namespace_quota, strictest_limit
from situate.vpod.state.state import State
from situate.vpod.state.vpod_view import VPodView

_ABSENT_CAUSES = (Cause.MISSING, Cause.PENDING)


def demand_target(state: State, entry: VPodEntry) -> int:
    """Return the target of step 5 that counts as demand, with the Pods that `minReplicas` will bring."""
    options = state.options
    coming = options.min_replicas if options.max_replicas is None else min(options.min_replicas, options.max_replicas)
    return effective_target(state, entry.wanted, max(coming, state.causes[Cause.NONE]))


def demand_by_weight(state: State) -> Counter[int]:
    """Return the vreplicas by weight that count as demand: no vreplica above a Pod's capacity or a namespace's quota.

    Running vreplicas above a quota count. They are never removed, and other namespaces lack the capacity that they use.
    """
    counts: Counter[int] = Counter()
    asked = [
        (entry, demand_target(state, entry))
        for entry in state.vpods.values()
        if entry.listed and entry.weight <= state.options.capacity
    ]
    if state.options.namespace_max_share is None:
        for entry, target in asked:
            counts[entry.weight] += target
        return +counts
    quota = namespace_quota(state)
    granted: Counter[str] = Counter()
    for entry, target in asked:
        granted[entry.key.namespace] += min(target, entry.reserved_total) * entry.weight
    for entry, target in asked:
        namespace, runs = entry.key.namespace, min(target, entry.reserved_total)
        more = min(target - runs, max(0, quota - granted[namespace]) // entry.weight)
        granted[namespace] += more * entry.weight
        counts[entry.weight] += runs + more
    return +counts


def wasted_ordinals(state: State) -> list[int]:
    """Return the ordinals below R of running Pods that reject, and so never take new vreplicas.

    The ordinals are ascending. Rule D5.
    """
    return sorted(
        ordinal
        for ordinal, slot in state.slots.items()
        if ordinal < state.replicas
        and slot.verdict.pod_class is PodClass.REJECT
        and slot.pod is not None
        and slot.pod.node
    )


def pods_needed(state: State) -> int:
    """Return the least R' for which ordinals 0..R'-1 hold the demand, before any limit on replicas."""
    wanted = demand_by_weight(state)
    capacity = state.options.capacity
    bins = bins_needed(wanted, capacity)
    if len(wanted) > 1 or (wanted and 1 not in wanted):
        bins = max(bins, _pods_without_repacking(state))
    if _rules_may_need_pods(state.options):
        bins = max(bins, _extra_pod_for_rules(state))
    for ordinal in wasted_ordinals(state):
        if ordinal >= bins:
            break
        bins += 1
    return bins


def bins_needed(wanted: Counter[int], capacity: int, rooms: Iterable[tuple[int, int]] = ()) -> int:
    """Return how many Pods first-fit-decreasing adds for vreplicas of these weights, after filling the given
    capacities.

    `rooms` has pairs of free units and a number of equal Pods. Equal Pods are counted in runs, so any number of
    vreplicas is one step.
    """
    if set(wanted) == {1} and not rooms:
        return -(-wanted[1] // capacity)
    runs = list(rooms)
    opened = 0
    for weight in sorted(wanted, reverse=True):
        left = wanted[weight]
        after: list[tuple[int, int]] = []
        for room, pods in runs:
            filled, left = _fill_run(room, pods, weight, left)
            after += filled
        new = -(-left // (capacity // weight))
        opened += new
        after += _fill_run(capacity, new, weight, left)[0]
        runs = after
    return opened


def _fill_run(room: int, pods: int, weight: int, wanted: int) -> tuple[list[tuple[int, int]], int]:
    """Fill a run of equal Pods from its beginning. Return the resulting runs and the vreplicas left over."""
    each = room // weight
    if not each or not wanted or not pods:
        return [(room, pods)] if pods else [], wanted
    full = min(pods, wanted // each)
    wanted -= full * each
    runs = [(room - each * weight, full)] if full else []
    if full < pods and wanted:
        runs.append((room - wanted * weight, 1))
        full, wanted = full + 1, 0
    if full < pods:
        runs.append((room, pods - full))
    return runs, wanted


def _pods_without_repacking(state: State) -> int:
    """Return the Pods needed if existing vreplicas stay: the present ones, and new ones for vreplicas that fit nowhere.

    Placing never repacks other vpods, so first-fit-decreasing from nothing may assume capacity that does not exist.
    """
    capacity = state.options.capacity
    wasted = set(wasted_ordinals(state))
    # free capacities of at most R Pods; ordinals without a slot are empty
    known = {o: max(0, state.free_units(o)) for o in state.slots if o < state.replicas and o not in wasted}
    bare = state.replicas - len(wasted) - len(known)
    pending: Counter[int] = Counter()
    short = False
    for entry in state.vpods.values():
        # Capacity does not help a vpod that a rule limits. A quota even grows with the Pods, and falls with them.
        if not entry.listed or entry.is_limited_by_rule or entry.weight > capacity:
            continue
        short = short or (entry.short_since is not None and entry.wanted > entry.reserved_total)
        # copies that `minReplicas` adds are no shortage, but they use new capacity (D6)
        pending[entry.weight] += max(0, demand_target(state, entry) - entry.reserved_total)
    pending = +pending
    if not short or not pending:
        return 0
    more = bins_needed(pending, capacity, [*((room, 1) for _, room in sorted(known.items())), (capacity, bare)])
    # also if `more` is 0: the capacity that a vpod waits for may be on a Pod that does not run yet
    return state.replicas - len(wasted) + more


def _rules_may_need_pods(options: Options) -> bool:
    """Return whether a rule can cause a shortage despite free capacity that another Pod may end."""
    if options.policy is PolicyName.POLICY:
        return options.placing.has_predicate(EVEN_POD_SPREAD)
    return options.topology is not Topology.NONE and options.topology_required


def _extra_pod_for_rules(state: State) -> int:
    """Return one Pod above the present ones if that helps a vpod limited by a rule, and no Pod is about to start."""
    if any(state.causes[cause] for cause in _ABSENT_CAUSES) or state.causes.total() < state.replicas:
        return 0
    if any(slot.verdict.until is not None for o, slot in state.slots.items() if o < state.replicas):
        return 0  # it terminates or is not ready: it will either accept again or reject
    if state.replicas >= sum(entry.wanted for entry in state.vpods.values()):
        return 0  # one Pod for each vreplica did not help, so one more will not
    return (
        state.replicas - len(wasted_ordinals(state)) + 1
        if any(_is_helped_by_pod(state, e) for e in state.vpods.values())
        else 0
    )


def _is_helped_by_pod(state: State, entry: VPodEntry) -> bool:
    """Return whether the vpod has a shortage that another Pod reduces. As the shortage falls, this ends."""
    if entry.short_since is None or entry.wanted <= entry.reserved_total or entry.weight > state.options.capacity:
        return False
    situation = VPodView.from_state(state, entry.as_vpod())
    limited = strictest_limit(situation, entry.key.namespace, entry.priority, entry.reserved_total)
    if limited is not None and limited.vreplicas == 0:
        return False  # for example a quota causes the shortage, whatever the free capacity
    if state.options.policy is not PolicyName.POLICY:
        return True
    return resize_by_policy.is_helped_by_a_pod(situation, situation.start, entry.wanted)
