"""The counts of used capacity: each vpod's status and reservation, summed by Pod, by namespace and by priority.

The counts change in O(entries touched). D9 defines them: `committed` counts the statuses, `adding` limits additions,
and `trimming` determines overcommit. Only this module changes these counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from situate.vpod.model.options import Options
from situate.vpod.model.records import NO_PLACES, Places, VPodEntry, add_count, changed_ordinals
from situate.vpod.model.vpod import Key, Placement, Placements, ordinal_of, pod_name
from situate.vpod.state.pods import PodTable


class PlacementCounts(PodTable):
    """The vpods, and their units on each Pod."""

    def __init__(self, options: Options, replicas: int, now: float) -> None:
        super().__init__(options, replicas, now)
        self.vpods: dict[Key, VPodEntry] = {}
        self.drain_moved_at: float | None = None  # when a vreplica last left a drained ordinal
        self.wants: Counter[str] = Counter()  # by namespace: units asked for
        self.used: Counter[str] = Counter()  # by namespace: units reserved
        self.pending: Counter[int] = Counter()  # by priority: units asked for, not reserved, and without capacity
        self.spare = 0  # vreplicas reserved above wanted
        self.short: dict[Key, VPodEntry] = {}  # vpods with a shortage in their last decision

    def free_units(self, ordinal: int) -> int:
        """Return the units that may still be added on a Pod of any class; negative if the Pod is overcommitted."""
        slot = self.slots.get(ordinal)
        return self.options.capacity - (slot.adding if slot is not None else 0)

    def reservations(self) -> dict[Key, dict[int, int]]:
        """Return a copy of the reservations, without vpods that have none."""
        return {key: dict(entry.reserved) for key, entry in self.vpods.items() if entry.reserved}

    def is_used_from(self, ordinal: int) -> bool:
        """Return whether any status placement or reservation is on this ordinal or a higher one."""
        return any(o >= ordinal and (slot.adding > 0 or slot.committed > 0) for o, slot in self.slots.items())

    def places_of(self, placements: Placements, entry: VPodEntry | None = None) -> tuple[Places, Placements]:
        """Return a status by ordinal, with duplicates summed, and its invalid entries.

        An entry is invalid if it names no Pod of this StatefulSet or a negative number.
        """
        if entry is not None and self.options.safe and placements == entry.result and entry.reserved is not None:
            return entry.reserved, ()  # a result equals its reservation, except in the policy era's shortages
        places: dict[int, int] = {}
        invalid: list[Placement] = []
        ordinals = self._ordinals
        for placement in placements:
            ordinal = ordinals.get(placement.pod_name)
            if ordinal is None:
                ordinal = ordinal_of(placement.pod_name, self.options.statefulset_name)
            if ordinal is None or placement.vreplicas < 0:
                invalid.append(placement)
            else:
                places[ordinal] = places.get(ordinal, 0) + placement.vreplicas
        return places, tuple(invalid)

    def placements_of(self, places: Places) -> Placements:
        """Return places as placements, sorted by ordinal."""
        slots, name = self.slots, self.options.statefulset_name
        return tuple(
            Placement(slots[o].name if o in slots else pod_name(name, o), n) for o, n in sorted(places.items())
        )

    def _count_listed_places(self, entry: VPodEntry) -> None:
        """Count the places of a vpod on slots whose class is not known yet; used by `rebuilt`."""
        weight, status = entry.weight, entry.status
        held = entry.reserved if entry.reserved is not None else status if self.options.safe else NO_PLACES
        for ordinal in status.keys() | held.keys():
            slot = self.slots.get(ordinal) or self._get_or_add_slot(ordinal)
            here, there = status.get(ordinal, 0), held.get(ordinal, 0)
            slot.committed += here * weight
            slot.trimming += there * weight
            slot.adding += (max(here, there) if self.options.safe else there) * weight

    def _set_places(self, entry: VPodEntry, status: Places, reserved: Places | None) -> None:
        """Replace a vpod's status and reservation, and update the counts of the slots; O(entries)."""
        if not self.options.safe:
            self._recount_reference(entry, status, reserved)
        elif reserved is entry.reserved and reserved is not None:
            self._recount_status(entry, status, reserved)
        else:
            self._recount(entry, status, reserved)
        entry.status, entry.reserved = status, reserved
        entry.status_total = sum(status.values())
        entry.reserved_total = sum(reserved.values()) if reserved else 0

    def _recount(self, entry: VPodEntry, status: Places, reserved: Places | None) -> None:
        weight, old_status = entry.weight, entry.status
        old_held = old_status if entry.reserved is None else entry.reserved
        held = status if reserved is None else reserved
        for ordinal in {*changed_ordinals(old_status, status), *changed_ordinals(old_held, held)}:
            slot = self._get_or_add_slot(ordinal)
            was_status, is_status = old_status.get(ordinal, 0), status.get(ordinal, 0)
            was_held, is_held = old_held.get(ordinal, 0), held.get(ordinal, 0)
            slot.committed += (is_status - was_status) * weight
            slot.trimming += (is_held - was_held) * weight
            slot.adding += (max(is_status, is_held) - max(was_status, was_held)) * weight
            self._refresh_slot(slot)

    def _recount_status(self, entry: VPodEntry, status: Places, reserved: Places) -> None:
        """Update the counts after a status changed, the common case. Only excess over the reservation uses capacity."""
        weight, old = entry.weight, entry.status
        for ordinal in changed_ordinals(old, status):
            slot = self._get_or_add_slot(ordinal)
            was, now, held = old.get(ordinal, 0), status.get(ordinal, 0), reserved.get(ordinal, 0)
            slot.committed += (now - was) * weight
            if was > held or now > held or not slot.committed:
                slot.adding += (max(now, held) - max(was, held)) * weight
                self._refresh_slot(slot)

    def _recount_reference(self, entry: VPodEntry, status: Places, reserved: Places | None) -> None:
        """Update the counts in the reference profile, where only reservations use capacity."""
        weight = entry.weight
        old, new = entry.reserved or NO_PLACES, reserved or NO_PLACES
        for ordinal in {*changed_ordinals(entry.status, status), *changed_ordinals(old, new)}:
            slot = self._get_or_add_slot(ordinal)
            slot.committed += (status.get(ordinal, 0) - entry.status.get(ordinal, 0)) * weight
            change = (new.get(ordinal, 0) - old.get(ordinal, 0)) * weight
            slot.adding += change
            slot.trimming += change
            self._refresh_slot(slot)

    def _apply_delta(self, entry: VPodEntry, delta: Places, old: Places | None, reserved: Places | None) -> None:
        """Do the same as `_set_places` for a reservation that changes only by `delta`; O(delta)."""
        if not self.options.safe or ((old is None or reserved is None) and entry.status):
            self._set_places(entry, entry.status, reserved)
            return
        weight, status, capacity = entry.weight, entry.status, self.options.capacity
        slots, ousted, places = self.slots, self.ousted, reserved or NO_PLACES
        for ordinal, change in delta.items():
            slot = slots.get(ordinal) or self._get_or_add_slot(ordinal)
            held = places.get(ordinal, 0)
            slot.trimming += change * weight
            if ordinal in status:
                committed = status[ordinal]
                change = max(committed, held) - max(committed, held - change)
            slot.adding += change * weight
            if slot.open is not (slot.adding < capacity) or slot.trimming > capacity or ordinal in ousted:
                self._refresh_slot(slot)
        entry.reserved = reserved
        entry.reserved_total += sum(delta.values())

    def _set_shortage(self, entry: VPodEntry, since: float | None) -> None:
        """Store the time since when the decisions have had a shortage; None: the last decision had none."""
        entry.short_since = since
        if since is None:
            self.short.pop(entry.key, None)
        else:
            self.short[entry.key] = entry

    def _record_drain_move(self, touched: Iterable[int]) -> None:
        """Store when drained ordinals last changed. A smaller scale waits until this move has settled."""
        if self.drain is not None and any(ordinal >= self.drain.target for ordinal in touched):
            self.drain_moved_at = self.now

    def _count_vpod(self, entry: VPodEntry, sign: int = 1) -> None:
        """Add a vpod to the sums by namespace and priority.

        The demand sums leave out a vpod too large for any Pod. Rule B10.
        """
        namespace, weight = entry.key.namespace, entry.weight
        add_count(self.used, namespace, sign * entry.reserved_total * weight)
        if entry.listed and entry.reserved_total > entry.wanted:
            self.spare += sign * (entry.reserved_total - entry.wanted)
        if weight <= self.options.capacity:
            add_count(self.wants, namespace, sign * entry.wanted * weight)
            if entry.wanted > entry.reserved_total and not entry.is_limited_by_rule:
                add_count(self.pending, entry.priority, sign * (entry.wanted - entry.reserved_total) * weight)
