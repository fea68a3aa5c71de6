"""One vpod during a decision: its places, and how many more of its vreplicas each Pod can take.

The view is created for each decision. It reads the state and never changes it. `fill` and `shrink` choose the Pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import merge

import msgspec

from situate.vpod.model.pod_classes import PodClass
from situate.vpod.model.records import NO_PLACES, Places, Slot, VPodEntry
from situate.vpod.model.vpod import VPod, weight_of
from situate.vpod.state.state import State


class VPodView(msgspec.Struct, frozen=True):
    """A vpod at the moment of a decision."""

    state: State
    entry: VPodEntry | None
    """None: the vpod is not in the state."""
    weight: int
    start: Places
    """The places before the decision: the reservation; in `safe` the status if there is no reservation (D9)."""
    status: Places
    """The status placements of the given vpod, by ordinal."""

    @classmethod
    def from_state(cls, state: State, vpod: VPod) -> VPodView:
        entry = state.vpods.get(vpod.key)
        if entry is not None and (entry.placements is vpod.placements or entry.placements == vpod.placements):
            status = entry.status
        else:
            status, _ = state.places_of(vpod.placements)
        reserved = entry.reserved if entry is not None else None
        if reserved is None:
            reserved = {o: n for o, n in sorted(status.items()) if n > 0} if state.options.safe else NO_PLACES
        return cls(state, entry, weight_of(vpod), reserved, status)

    @property
    def counted_places(self) -> Places:
        """The vreplicas that the state counts for this vpod as trimming."""
        if self.entry is None:
            return NO_PLACES
        if self.entry.reserved is not None:
            return self.entry.reserved
        return self.entry.status if self.state.options.safe else NO_PLACES

    def overcommitted_units(self, ordinal: int, held: int) -> int:
        """Return the units above the Pod's capacity if this vpod holds `held` vreplicas there; negative below it."""
        slot = self.state.slots.get(ordinal)
        if slot is None:
            return held * self.weight - self.state.options.capacity
        others = slot.trimming - self.counted_places.get(ordinal, 0) * (self.entry.weight if self.entry else 0)
        return others + held * self.weight - self.state.options.capacity

    def free_vreplicas(self, ordinal: int, held: int) -> int:
        """Return how many more vreplicas a Pod takes if the vpod holds `held` there; 0 unless the Pod accepts."""
        slot = self.state.slots.get(ordinal)
        if slot is None or slot.verdict.pod_class is not PodClass.ACCEPT:
            return 0
        free = self.free_units(slot, held)
        return free // self.weight if free > 0 else 0

    def free_units(self, slot: Slot, held: int) -> int:
        """Return the units left on a Pod of any class if the vpod holds `held` vreplicas there; negative:
        overcommitted.
        """
        return self.state.options.capacity - slot.adding - held * self.weight + self._own_units(slot.ordinal)

    def _own_units(self, ordinal: int) -> int:
        """Return the units that the state counts for this vpod on a Pod. The decision replaces them."""
        entry = self.entry
        if entry is None:
            return 0
        held = entry.reserved.get(ordinal, 0) if entry.reserved is not None else 0
        if self.state.options.safe:
            held = max(held, entry.status.get(ordinal, 0))
        return held * entry.weight

    def is_rejected(self, ordinal: int) -> bool:
        return self.state.verdict(ordinal).pod_class is PodClass.REJECT

    def known_places(self) -> set[int]:
        """Return the ordinals of this vpod's status or reservation; only there its free capacity differs."""
        known = set(self.start)
        if self.entry is not None:
            known.update(self.entry.status, self.entry.reserved or NO_PLACES)
        return known

    def has_free_capacity(self, own: Places) -> bool:
        """Return whether any Pod takes one more vreplica if the vpod holds `own`.

        A Pod that is full for other vpods may have capacity for this vpod alone, because its status still counts there.
        """
        return bool(self.state.open) or any(self.free_vreplicas(o, own.get(o, 0)) for o in self.known_places())

    def unused_ordinals(self, own: Mapping[int, int], apart: set[int], domain: str | None = None) -> Iterator[int]:
        """Return the accepting Pods of a domain (None: all) without vreplicas of the vpod, ascending, except `apart`.

        Pods that are full for all vpods are left out. A returned Pod may still lack capacity for this vpod's weight.
        """
        state = self.state
        known = self.known_places()
        known.update(own)
        if domain is None:
            domains = list(state.open.values())
            others = domains[0] if len(domains) == 1 else list(merge(*domains))
        else:
            others = state.open.get(domain, [])
        if not known:
            return iter(others)
        ours = sorted(
            o for o in known if not own.get(o) and o not in apart and (domain is None or self._domain_of(o) == domain)
        )
        rest = (o for o in others if o not in known)
        return merge(ours, rest) if ours else rest

    def _domain_of(self, ordinal: int) -> str | None:
        slot = self.state.slots.get(ordinal)
        return slot.domain if slot is not None else None
