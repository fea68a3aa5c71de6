"""One vpod before the pods, in the middle of a decision: what it holds, and how much more of it each pod takes.

Made anew for each decision; reads the state and never changes it. Which pods are chosen is left to `fill` and
`shrink`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import merge

import msgspec

from situate.vpod.model.pod_classes import PodClass
from situate.vpod.model.records import NO_PLACES, Entry, Places, Slot
from situate.vpod.model.vpod import VPod, weight_of
from situate.vpod.state.state import State


class Situation(msgspec.Struct, frozen=True):
    """A vpod as the decision finds it."""

    state: State
    entry: Entry | None
    """None: the state has never heard of it."""
    weight: int
    start: Places
    """What it holds before the decision: its reservation, in `safe` its status where there is none (D9)."""
    status: Places
    """What its status says, as handed in with the vpod."""

    @classmethod
    def of(cls, state: State, vpod: VPod) -> Situation:
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
    def counted(self) -> Places:
        """What the state counts of this vpod as trimming."""
        if self.entry is None:
            return NO_PLACES
        if self.entry.reserved is not None:
            return self.entry.reserved
        return self.entry.status if self.state.options.safe else NO_PLACES

    def overcommit(self, ordinal: int, held: int) -> int:
        """Units by which a pod is above its capacity if this vpod holds so many vreplicas there."""
        slot = self.state.slots.get(ordinal)
        if slot is None:
            return held * self.weight - self.state.options.capacity
        others = slot.trimming - self.counted.get(ordinal, 0) * (self.entry.weight if self.entry else 0)
        return others + held * self.weight - self.state.options.capacity

    def room(self, ordinal: int, held: int) -> int:
        """How many more of its vreplicas a pod takes if the vpod holds so many there; 0 unless the pod accepts."""
        slot = self.state.slots.get(ordinal)
        if slot is None or slot.verdict.pod_class is not PodClass.ACCEPT:
            return 0
        free = self.free(slot, held)
        return free // self.weight if free > 0 else 0

    def free(self, slot: Slot, held: int) -> int:
        """Units left on a pod of any class if the vpod holds so many vreplicas there; negative: overcommitted."""
        return self.state.options.capacity - slot.adding - held * self.weight + self._own_units(slot.ordinal)

    def _own_units(self, ordinal: int) -> int:
        """Units that the state counts for this vpod on a pod: they are replaced by the decision."""
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
        """Ordinals on which this vpod counts, or is said to be: a pod's room differs for it only there."""
        known = set(self.start)
        if self.entry is not None:
            known.update(self.entry.status, self.entry.reserved or NO_PLACES)
        return known

    def has_room(self, own: Places) -> bool:
        """Whether any pod may take some, if the vpod holds so many on each.

        A pod that is full for the others may have room for this vpod alone, whose status still counts there.
        """
        return bool(self.state.open) or any(self.room(o, own.get(o, 0)) for o in self.known_places())

    def fresh(self, own: Mapping[int, int], apart: set[int], domain: str | None = None) -> Iterator[int]:
        """Accepting pods of a domain (None: all) without vreplicas of the vpod, ascending; those in `apart` left out.

        Pods that are full for everybody are left out; a pod that is given may still lack room for this vpod's weight.
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
            o for o in known if not own.get(o) and o not in apart and (domain is None or self._domain(o) == domain)
        )
        rest = (o for o in others if o not in known)
        return merge(ours, rest) if ours else rest

    def _domain(self, ordinal: int) -> str | None:
        slot = self.state.slots.get(ordinal)
        return slot.domain if slot is not None else None
