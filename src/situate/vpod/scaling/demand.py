"""How many pods the vpods ask for (section 6, safe profile): demand in units, and the fewest pods that hold it.

Pods that are not there yet count in full: a cluster that is out of room is never answered by more pods (V22).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from situate.vpod.model.options import Options, PolicyName, Topology
from situate.vpod.model.pod_classes import Cause, PodClass
from situate.vpod.model.records import Entry
from situate.vpod.placement import resize_by_policy
from situate.vpod.placement.decide import effective_target
from situate.vpod.policy.registry import EVEN_POD_SPREAD
from situate.vpod.state.fairness_limits import limit, namespace_quota
from situate.vpod.state.state import State
from situate.vpod.state.vpod_view import Situation

_ABSENT = (Cause.MISSING, Cause.PENDING)


def target_of(state: State, entry: Entry) -> int:
    """What counts for a vpod: step 5's target with the pods that `minReplicas` will bring (D6)."""
    options = state.options
    coming = options.min_replicas if options.max_replicas is None else min(options.min_replicas, options.max_replicas)
    return effective_target(state, entry.wanted, max(coming, state.causes[Cause.NONE]))


def items(state: State) -> Counter[int]:
    """Vreplicas by weight that count as demand: none above the capacity of a pod, none above a namespace's quota.

    What runs above a quota counts: it is never taken away, and the room it takes is missing to those within theirs.
    """
    counts: Counter[int] = Counter()
    asked = [
        (entry, target_of(state, entry))
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
    """Ordinals below R that hold nothing new however long one waits: pods that run, and reject (D5). Ascending."""
    return sorted(
        ordinal
        for ordinal, slot in state.slots.items()
        if ordinal < state.replicas
        and slot.verdict.pod_class is PodClass.REJECT
        and slot.pod is not None
        and slot.pod.node
    )


def pods_needed(state: State) -> int:
    """The least R' so that ordinals 0..R'-1 hold the demand, before any limit on replicas."""
    wanted = items(state)
    capacity = state.options.capacity
    bins = bins_needed(wanted, capacity)
    if len(wanted) > 1 or (wanted and 1 not in wanted):
        bins = max(bins, _with_what_lies(state))
    if _rules_may_want_more(state.options):
        bins = max(bins, _one_more(state))
    for ordinal in wasted_ordinals(state):
        if ordinal >= bins:
            break
        bins += 1
    return bins


def bins_needed(wanted: Counter[int], capacity: int, rooms: Iterable[tuple[int, int]] = ()) -> int:
    """Pods that first-fit-decreasing opens for vreplicas of these weights, after filling the given rooms.

    Rooms are (units, so many pods in a row). Counted in runs of equal pods: any number of vreplicas is one step.
    """
    if set(wanted) == {1} and not rooms:
        return -(-wanted[1] // capacity)
    runs = list(rooms)
    opened = 0
    for weight in sorted(wanted, reverse=True):
        left = wanted[weight]
        after: list[tuple[int, int]] = []
        for room, pods in runs:
            filled, left = _run_filled(room, pods, weight, left)
            after += filled
        new = -(-left // (capacity // weight))
        opened += new
        after += _run_filled(capacity, new, weight, left)[0]
        runs = after
    return opened


def _run_filled(room: int, pods: int, weight: int, wanted: int) -> tuple[list[tuple[int, int]], int]:
    """A run of equal pods, filled from its beginning: the runs that it falls into, and what is left of the wanted."""
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


def _with_what_lies(state: State) -> int:
    """Pods that count, and those that weighted vreplicas need which fit nowhere beside what lies where it lies.

    Placing never repacks other vpods, so first-fit-decreasing from nothing may promise room that there is not.
    """
    capacity = state.options.capacity
    wasted = set(wasted_ordinals(state))
    # rooms of at most R pods; ordinals without a slot are empty
    known = {o: max(0, state.free(o)) for o in state.slots if o < state.replicas and o not in wasted}
    bare = state.replicas - len(wasted) - len(known)
    pending: Counter[int] = Counter()
    short = False
    for entry in state.vpods.values():
        # whom a rule holds back is helped by no room; a quota even grows with the pods, and falls when they go again
        if not entry.listed or entry.ruled_out or entry.weight > capacity:
            continue
        short = short or (entry.short_since is not None and entry.wanted > entry.reserved_total)
        # what `minReplicas` adds is nobody's shortage, but it takes the room that comes (D6)
        pending[entry.weight] += max(0, target_of(state, entry) - entry.reserved_total)
    pending = +pending
    if not short or not pending:
        return 0
    more = bins_needed(pending, capacity, [*((room, 1) for _, room in sorted(known.items())), (capacity, bare)])
    # with none more, too: the room that somebody waits for may be on a pod that is not there yet
    return state.replicas - len(wasted) + more


def _rules_may_want_more(options: Options) -> bool:
    """Whether a vpod can be short while there is room, in a way that another pod may end."""
    if options.policy is PolicyName.POLICY:
        return options.placing.has_predicate(EVEN_POD_SPREAD)
    return options.topology is not Topology.NONE and options.topology_required


def _one_more(state: State) -> int:
    """One pod above those that take part while a rule leaves a vpod short, and no pod is on its way."""
    if any(state.causes[cause] for cause in _ABSENT) or state.causes.total() < state.replicas:
        return 0
    if any(slot.verdict.until is not None for o, slot in state.slots.items() if o < state.replicas):
        return 0  # it terminates or is not ready yet: it comes back, or is given up in its time
    if state.replicas >= sum(entry.wanted for entry in state.vpods.values()):
        return 0  # a pod for each vreplica has not helped: nor will another one
    return (
        state.replicas - len(wasted_ordinals(state)) + 1
        if any(_is_helped(state, e) for e in state.vpods.values())
        else 0
    )


def _is_helped(state: State, entry: Entry) -> bool:
    """Whether it is short, and less so with another pod; as less is left each time, this comes to an end."""
    if entry.short_since is None or entry.wanted <= entry.reserved_total or entry.weight > state.options.capacity:
        return False
    situation = Situation.of(state, entry.as_vpod())
    limited = limit(situation, entry.key.namespace, entry.priority, entry.reserved_total)
    if limited is not None and limited.vreplicas == 0:
        return False  # a quota or the like keeps it short, whatever room there is
    if state.options.policy is not PolicyName.POLICY:
        return True
    return resize_by_policy.is_helped_by_a_pod(situation, situation.start, entry.wanted)
