"""Bring a vpod to its target with the plugins of the policy, in the middle of a decision.

The Pod classes decide which Pods take part. Accepting Pods receive vreplicas and are compared with each other.
Vreplicas on Pods on hold stay, count for their zone and node, and may be removed. `decide` does the trimming and
computes the targets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np

from situate.vpod.model.options import Rescale
from situate.vpod.model.pod_classes import PodClass
from situate.vpod.model.records import Places, Slot
from situate.vpod.model.vpod import UNKNOWN_ZONE, pod_name
from situate.vpod.policy.choose import Arithmetic, feasible_pods, filter_reasons, refusal_of, weighted_sums
from situate.vpod.policy.filters import FULL
from situate.vpod.policy.place import CAPACITY_FILTER, capacity_upper_bound, place_vreplicas, remove_vreplicas
from situate.vpod.policy.registry import CompiledPolicy, compile_policy
from situate.vpod.policy.view import UNKNOWN_DOMAIN, Domains, PolicyView
from situate.vpod.state.state import State
from situate.vpod.state.vpod_view import VPodView

_compile_cached = lru_cache(maxsize=64)(compile_policy)


def add_by_policy(situation: VPodView, own: Places, missing: int) -> dict[int, int]:
    """Return `own` with `missing` more vreplicas; fewer if no Pod passes the predicates.

    With `rescale: replace`, all vreplicas on accepting Pods are placed again. With `keep` this happens only if
    predicates leave a rest. Both require that every vreplica then finds a place.
    """
    options = situation.state.options
    policy = _compile_cached(options.placing)
    target = missing + sum(own.values())
    if options.rescale is Rescale.KEEP:
        if not situation.has_free_capacity(own):
            return dict(own)
        kept = _place_missing(placement_view(situation, own), own, missing, policy)
        if sum(kept.values()) == target or not policy.filters or not situation.state.open:
            return kept
    anew = _place_again(situation, own, target, policy)
    if anew is not None:
        return anew
    return (
        kept
        if options.rescale is Rescale.KEEP
        else _place_missing(placement_view(situation, own), own, missing, policy)
    )


def remove_by_policy(situation: VPodView, own: Places, surplus: int) -> dict[int, int]:
    """Return `own` with `surplus` vreplicas fewer, taken from Pods of any class."""
    state = situation.state
    # a status that the state has not seen yet may name Pods without a slot
    slots = [
        state.slots.get(ordinal) or Slot(ordinal, pod_name(state.options.statefulset_name, ordinal))
        for ordinal in sorted(own)
    ]
    view = _build_view(situation, own, slots, [True] * len(slots))
    gone = remove_vreplicas(view, _compile_cached(state.options.removing), surplus).changes
    return {ordinal: held - gone.get(ordinal, 0) for ordinal, held in own.items() if held > gone.get(ordinal, 0)}


def refusal_summary(situation: VPodView, own: Places) -> str:
    """Return why Pods with free capacity take no more, such as `3 pod will cause an uneven spread`.

    If no Pod has free capacity, return why an empty Pod would not take a vreplica either, or an empty text.
    """
    view = placement_view(situation, own)
    policy = _compile_cached(situation.state.options.placing)
    if situation.has_free_capacity(own):
        counts = Counter(reason for reason in _refusals_in_view(view, policy).values() if reason != FULL)
        candidates = feasible_pods(view, (CAPACITY_FILTER, *policy.filters))
        _, status = weighted_sums(view, candidates, policy, Arithmetic.EXACT)
        for reason in status.reasons:
            counts[reason] += int(candidates.sum())
        if counts:
            return ", ".join(f"{number} {reason}" for reason, number in sorted(counts.items()))
    wider = view.with_empty_pod(situation.state.options.capacity)
    reason = refusal_of(wider, -1, (CAPACITY_FILTER, *policy.filters))
    return f"a new pod would not help ({reason})" if reason and reason != FULL else ""


def refusals_by_ordinal(situation: VPodView, own: Places) -> dict[int, str]:
    """Return for each accepting Pod that may not take one more the reason of the first filter that it fails."""
    return _refusals_in_view(placement_view(situation, own), _compile_cached(situation.state.options.placing))


def is_helped_by_a_pod(situation: VPodView, own: Places, target: int) -> bool:
    """Return whether one more, empty Pod would reduce the rest, if the whole vpod were placed again."""
    options = situation.state.options
    policy = _compile_cached(options.placing)
    held = _places_on_hold(situation, own)
    missing = target - sum(held.values())
    view = placement_view(situation, held)
    wider = view.with_empty_pod(options.capacity)
    if missing > capacity_upper_bound(wider, policy):
        return False  # the capacity is short, which demand counts already
    left = place_vreplicas(view, policy, missing).left
    return left > 0 and place_vreplicas(wider, policy, missing).left < left


def placement_view(situation: VPodView, own: Places) -> PolicyView:
    """Return the view of the accepting Pods and of the Pods that hold some of the vpod."""
    slots = [
        slot
        for ordinal, slot in sorted(situation.state.slots.items())
        if slot.verdict.pod_class is PodClass.ACCEPT or own.get(ordinal)
    ]
    accepting = [slot.verdict.pod_class is PodClass.ACCEPT for slot in slots]
    return _build_view(situation, own, slots, accepting)


def _refusals_in_view(view: PolicyView, policy: CompiledPolicy) -> dict[int, str]:
    reasons = filter_reasons(view, (CAPACITY_FILTER, *policy.filters))
    return {
        int(ordinal): reason
        for ordinal, accepts, reason in zip(view.ordinals, view.schedulable, reasons, strict=True)
        if accepts and reason
    }


def _place_again(situation: VPodView, own: Places, target: int, policy: CompiledPolicy) -> dict[int, int] | None:
    """Place the whole vpod again, except on Pods that accept nothing; None if not every vreplica finds a place.

    A number that cannot fit is not tried, so that a vpod with an absurd number does not delay the others.
    """
    held = _places_on_hold(situation, own)
    missing = target - sum(held.values())
    view = placement_view(situation, held)
    if missing > capacity_upper_bound(view, policy):
        return None
    result = _place_missing(view, held, missing, policy)
    return result if sum(result.values()) == target else None


def _places_on_hold(situation: VPodView, own: Places) -> dict[int, int]:
    """Return the vreplicas on Pods that do not accept; these vreplicas stay."""
    return {o: n for o, n in own.items() if situation.state.verdict(o).pod_class is not PodClass.ACCEPT}


def _place_missing(view: PolicyView, own: Places, missing: int, policy: CompiledPolicy) -> dict[int, int]:
    result = dict(own)
    for ordinal, added in place_vreplicas(view, policy, missing).changes.items():
        result[ordinal] = result.get(ordinal, 0) + added
    return result


def _build_view(situation: VPodView, own: Places, slots: list[Slot], schedulable: list[bool]) -> PolicyView:
    state = situation.state
    ordinals = [slot.ordinal for slot in slots]
    index = {ordinal: position for position, ordinal in enumerate(ordinals)}
    free = np.array([state.options.capacity - slot.adding for slot in slots], dtype=np.int64)
    for ordinal in situation.known_places() | own.keys():
        if ordinal in index:
            free[index[ordinal]] = situation.free_units(slots[index[ordinal]], own.get(ordinal, 0))
    counts = np.array([own.get(ordinal, 0) for ordinal in ordinals], dtype=np.int64)
    zone_of_node = _zones_by_node(state)
    pod_nodes = [slot.pod.node if slot.pod is not None else "" for slot in slots]
    pod_zones = [_zone_of_node(state, node) for node in pod_nodes]
    return PolicyView(
        replicas=state.replicas,
        ordinals=np.array(ordinals, dtype=np.int64),
        schedulable=np.array(schedulable, dtype=np.bool_),
        free=free,
        own=counts,
        in_spread=counts > 0,
        nodes=_domains(pod_nodes, zone_of_node, counts.tolist()),
        zones=_domains(pod_zones, dict.fromkeys(zone_of_node.values(), ""), counts.tolist()),
        weight=situation.weight,
    )


def _zones_by_node(state: State) -> Mapping[str, str]:
    """Return the zones of the nodes that count, as in the policy era's state.

    If nodes cannot be listed, the nodes of the StatefulSet's Pods count.
    """
    if not state.nodes_known:
        pods = (slot.pod for slot in state.slots.values())
        return {pod.node: UNKNOWN_ZONE for pod in pods if pod is not None and pod.node}
    return {
        node.name: node.zone or UNKNOWN_ZONE
        for node in state.nodes.values()
        if not node.unschedulable and not node.unreachable
    }


def _zone_of_node(state: State, node_name: str) -> str:
    node = state.nodes.get(node_name)
    return (node.zone if node is not None else None) or UNKNOWN_ZONE


def _domains(of_pod: list[str], names: Iterable[str], own: list[int]) -> Domains:
    index = {name: position for position, name in enumerate(names)}
    positions = [index.get(name, UNKNOWN_DOMAIN) for name in of_pod]
    totals = np.zeros(len(index), dtype=np.int64)
    for position, vreplicas in zip(positions, own, strict=True):
        if vreplicas and position != UNKNOWN_DOMAIN:
            totals[position] += vreplicas
    return Domains(np.array(positions, dtype=np.int64), totals, totals > 0)
