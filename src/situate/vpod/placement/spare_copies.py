"""Copies that `minReplicas` adds beyond the vreplicas wanted: best effort (D6), so any wanted vreplica goes first.

While a vpod lacks vreplicas that it wants, no spare copy is added where these could go, and vpods that hold spare
copies return as many as are needed. Nothing else moves for that. `decide` asks here what a vpod should hold,
the controller which vpods to decide again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from situate.vpod.model.options import PolicyName
from situate.vpod.model.pod_classes import PodClass
from situate.vpod.model.records import NO_PLACES, Entry, Places
from situate.vpod.model.vpod import Key
from situate.vpod.state.fairness_limits import Rule, namespace_room
from situate.vpod.state.state import State
from situate.vpod.state.vpod_view import Situation


@dataclass(slots=True)
class Due:
    """Units that spare copies have to free: on any pod, and in the share of one namespace."""

    anywhere: float = 0.0
    """Infinite where more than a number of units is needed: a heavy vreplica needs room on one pod."""
    by_namespace: dict[str, float] = field(default_factory=dict)

    def units(self, namespace: str) -> float:
        return max(self.anywhere, self.by_namespace.get(namespace, 0.0), 0.0)

    def pay(self, namespace: str, units: int) -> None:
        self.anywhere -= units
        if namespace in self.by_namespace:
            self.by_namespace[namespace] -= units

    def __bool__(self) -> bool:
        return self.anywhere > 0 or any(units > 0 for units in self.by_namespace.values())


def aim(situation: Situation, key: Key, wanted: int, target: int, own: Places) -> int:
    """Vreplicas that a vpod should hold, from `wanted` to `target`, if it holds `own` now."""
    state, held = situation.state, sum(own.values())
    if target <= wanted or not state.options.safe:
        return target
    if len(state.short) > (key in state.short):
        owed = due(state, key)
        units = owed.units(key.namespace)
        if units or key.namespace in owed.by_namespace:
            return max(wanted, min(held, target) - _returned(situation, own, wanted, units))
    if held < target:
        return min(target, max(wanted, held) + _units_to_spare(situation, wanted - held) // situation.weight)
    return target


def due(state: State, apart: Key | None = None) -> Due:
    """What vpods lack that were short in their last decision, less the room that is free or about to be.

    `apart` is left out: a vpod owes nothing to itself.
    """
    found = Due()
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
        room = namespace_room(state, namespace)
        found.by_namespace[namespace] = inf if namespace in heavy else units - max(0, room or 0)
    return found


def givers(state: State) -> list[Key]:
    """Vpods whose next decision returns spare copies to those that are short, as few as are enough.

    Those with most copies to spare come first.
    """
    if not state.spare or not state.short:
        return []
    owed = due(state)
    found = []
    holders = [entry for entry in state.vpods.values() if _spare(entry) > 0]
    for entry in sorted(holders, key=lambda each: (-_spare(each), each.key)):
        if not owed:
            break
        situation = Situation.of(state, entry.as_vpod())
        returned = _returned(situation, entry.reserved or NO_PLACES, entry.wanted, owed.units(entry.key.namespace))
        if returned:
            found.append(entry.key)
            owed.pay(entry.key.namespace, returned * entry.weight)
    return found


def takers(state: State, targets: Iterable[tuple[Entry, int]]) -> list[Key]:
    """Of vpods with their targets, those that lack spare copies for which there is room. In the order given."""
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


def returnable(situation: Situation, own: Mapping[int, int]) -> dict[int, int]:
    """Of what a vpod holds, the part where a copy that goes makes room: on accepting pods within their capacity."""
    verdict = situation.state.verdict
    return {o: n for o, n in own.items() if verdict(o).pod_class is PodClass.ACCEPT and situation.overcommit(o, n) <= 0}


def _spare(entry: Entry) -> int:
    return entry.reserved_total - entry.wanted if entry.listed else 0


def _returned(situation: Situation, own: Places, wanted: int, units: float) -> int:
    """Copies to return, up to so many units; what is wanted stays on pods that are not about to be given up."""
    if units <= 0 or situation.state.options.policy is not PolicyName.SPREAD:
        return 0
    state = situation.state
    lasting = sum(n for o, n in own.items() if state.verdict(o).until is None)
    most = max(0, min(sum(returnable(situation, own).values()), lasting - wanted))
    return most if units == inf else min(most, -(-int(units) // situation.weight))


def _units_to_spare(situation: Situation, still_wanted: int) -> int:
    """Units for which no vpod waits, this one's own missing vreplicas included."""
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
    """Units on accepting pods that no reservation takes, also where a status does not show that yet."""
    capacity = state.options.capacity
    return sum(
        max(0, capacity - slot.trimming) for slot in state.slots.values() if slot.verdict.pod_class is PodClass.ACCEPT
    )
