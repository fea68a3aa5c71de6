"""Spare copies: vreplicas that `minReplicas` adds above wanted. They are best effort, so wanted vreplicas come first.

While a vpod lacks wanted vreplicas, no spare copy is added on capacity that the vpod could use. Other vpods return as
many spare copies as necessary. Nothing else moves for this purpose. `decide` asks this module how many vreplicas a vpod
should hold. The controller asks which vpods to schedule again. Rule D6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from situate.vpod.model.options import PolicyName
from situate.vpod.model.pod_classes import PodClass
from situate.vpod.model.records import NO_PLACES, Places, VPodEntry
from situate.vpod.model.vpod import Key
from situate.vpod.state.fairness_limits import Rule, namespace_free_units
from situate.vpod.state.state import State
from situate.vpod.state.vpod_view import VPodView


@dataclass(slots=True)
class UnitsOwed:
    """Units that spare copies have to free: on any Pod, and in the quota of one namespace."""

    anywhere: float = 0.0
    """Infinite if a number of units is not sufficient: a heavy vreplica needs all its capacity on one Pod."""
    by_namespace: dict[str, float] = field(default_factory=dict)

    def units(self, namespace: str) -> float:
        return max(self.anywhere, self.by_namespace.get(namespace, 0.0), 0.0)

    def reduce(self, namespace: str, units: int) -> None:
        self.anywhere -= units
        if namespace in self.by_namespace:
            self.by_namespace[namespace] -= units

    def __bool__(self) -> bool:
        return self.anywhere > 0 or any(units > 0 for units in self.by_namespace.values())


def vreplicas_to_hold(situation: VPodView, key: Key, wanted: int, target: int, own: Places) -> int:
    """Return the number of vreplicas, from `wanted` to `target`, that a vpod with places `own` should hold."""
    state, held = situation.state, sum(own.values())
    if target <= wanted or not state.options.safe:
        return target
    if len(state.short) > (key in state.short):
        owed = units_owed(state, key)
        units = owed.units(key.namespace)
        if units or key.namespace in owed.by_namespace:
            return max(wanted, min(held, target) - _copies_to_return(situation, own, wanted, units))
    if held < target:
        return min(target, max(wanted, held) + _spare_units(situation, wanted - held) // situation.weight)
    return target


def units_owed(state: State, apart: Key | None = None) -> UnitsOwed:
    """Return the units that vpods with a shortage lack, minus the units that no reservation takes.

    `apart` is left out, because a vpod returns no copies to itself.
    """
    found = UnitsOwed()
    lacking: Counter[str] = Counter()
    heavy: set[str] = set()
    for entry in state.short.values():
        missing = entry.wanted - entry.reserved_total
        if entry.key == apart or not entry.listed or missing <= 0 or entry.weight > state.options.capacity:
            continue
        namespace = entry.key.namespace
        if entry.rule in (Rule.QUOTA, Rule.FAIRNESS):
            lacking[namespace] += missing * entry.weight
            if entry.weight > 1:
                heavy.add(namespace)
        elif entry.rule == Rule.TOPOLOGY or (not entry.rule and entry.weight > 1):
            found.anywhere = inf
        elif not entry.rule:
            found.anywhere += missing
    if found.anywhere:
        found.anywhere -= _unreserved_units(state)
    for namespace, units in lacking.items():
        room = namespace_free_units(state, namespace)
        found.by_namespace[namespace] = inf if namespace in heavy else units - max(0, room or 0)
    return found


def spare_copy_givers(state: State) -> list[Key]:
    """Return the fewest vpods whose next decision returns enough spare copies to the vpods with a shortage.

    Vpods with the most spare copies come first.
    """
    if not state.spare or not state.short:
        return []
    owed = units_owed(state)
    found = []
    holders = [entry for entry in state.vpods.values() if _spare_count(entry) > 0]
    for entry in sorted(holders, key=lambda each: (-_spare_count(each), each.key)):
        if not owed:
            break
        situation = VPodView.from_state(state, entry.as_vpod())
        returned = _copies_to_return(
            situation, entry.reserved or NO_PLACES, entry.wanted, owed.units(entry.key.namespace)
        )
        if returned:
            found.append(entry.key)
            owed.reduce(entry.key.namespace, returned * entry.weight)
    return found


def spare_copy_takers(state: State, targets: Iterable[tuple[VPodEntry, int]]) -> list[Key]:
    """Return the vpods that lack spare copies and for which there is free capacity, in the order of `targets`."""
    room = _unreserved_units(state) - state.pending.total()
    found = []
    for entry, target in targets:
        if room <= 0:
            break
        lacking = target - entry.reserved_total
        if entry.short_since is None and entry.reserved_total >= entry.wanted and lacking > 0:
            found.append(entry.key)
            room -= lacking * entry.weight
    return found


def returnable_places(situation: VPodView, own: Mapping[int, int]) -> dict[int, int]:
    """Return the vreplicas whose removal frees capacity: those on accepting Pods within their capacity."""
    verdict = situation.state.verdict
    return {
        o: n
        for o, n in own.items()
        if verdict(o).pod_class is PodClass.ACCEPT and situation.overcommitted_units(o, n) <= 0
    }


def _spare_count(entry: VPodEntry) -> int:
    return entry.reserved_total - entry.wanted if entry.listed else 0


def _copies_to_return(situation: VPodView, own: Places, wanted: int, units: float) -> int:
    """Return the number of copies to return, to free up to `units` units.

    As many vreplicas as wanted stay on Pods that are not about to reject them.
    """
    if units <= 0 or situation.state.options.policy is not PolicyName.SPREAD:
        return 0
    state = situation.state
    lasting = sum(n for o, n in own.items() if state.verdict(o).until is None)
    most = max(0, min(sum(returnable_places(situation, own).values()), lasting - wanted))
    return most if units == inf else min(most, -(-int(units) // situation.weight))


def _spare_units(situation: VPodView, still_wanted: int) -> int:
    """Return the units for which no other vpod waits, after the vpod's own missing vreplicas are deducted."""
    state, entry = situation.state, situation.entry
    waiting = state.pending.total()
    if not waiting:
        return state.options.capacity * max(1, state.replicas)
    if entry is not None and not entry.rule and entry.weight <= state.options.capacity:
        waiting -= max(0, entry.wanted - entry.reserved_total) * entry.weight
    if waiting <= 0:
        return state.options.capacity * max(1, state.replicas)
    return max(0, _unreserved_units(state) - waiting - max(0, still_wanted) * situation.weight)


def _unreserved_units(state: State) -> int:
    """Return the units on accepting Pods that no reservation takes, even if a status still shows a placement there."""
    capacity = state.options.capacity
    return sum(
        max(0, capacity - slot.trimming) for slot in state.slots.values() if slot.verdict.pod_class is PodClass.ACCEPT
    )
