"""The complete state of one StatefulSet, changed by events and decisions in O(entries touched).

This module adds the observed vpods and scale, and the decisions. `pods` has the Pods and their classes, and `counts`
has the units on them. `decide` makes decisions, and `knative_json` writes the JSON form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from situate.vpod.model.options import Options
from situate.vpod.model.pod_classes import NodeFacts, PodFacts
from situate.vpod.model.records import NO_PLACES, DrainGoal, Places, VPodEntry
from situate.vpod.model.vpod import Key, Placements, VPod, priority_of, weight_of
from situate.vpod.state.counts import PlacementCounts


class State(PlacementCounts):
    """One StatefulSet's Pods, vpods, placements and reservations.

    Equal histories give equal states. Rule S9.
    """

    def __init__(self, options: Options, replicas: int = 0, now: float = 0.0) -> None:
        super().__init__(options, replicas, now)

    @classmethod
    def rebuild(
        cls,
        options: Options,
        replicas: int,
        pods: Iterable[PodFacts],
        vpods: Iterable[VPod],
        now: float,
        nodes: Iterable[NodeFacts] | None = None,
        reserved: Mapping[Key, Places] | None = None,
        previous: State | None = None,
    ) -> State:
        """Build the state from listings.

        `reserved` None: reservations are the statuses of vpods without a deletionTimestamp, as in a promotion (D1).
        `nodes` None: nodes cannot be listed and count as healthy. `previous` provides the values that no listing shows:
        since when Pods have been unhealthy, a drain, and replicas that another client lowered.
        """
        state = cls(options, replicas, now)
        if previous is not None:
            state.drain, state.drain_moved_at = previous.drain, previous.drain_moved_at
            state.reset_from, state.reset_since = previous.reset_from, previous.reset_since
            state.version = previous.version  # an answer for that version is not valid for this state
        if nodes is not None:
            state.nodes_known = True
            state.nodes = {node.name: node for node in nodes}
        for pod in pods:
            state._add_listed_pod(pod)
        for vpod in vpods:
            state._add_listed_vpod(vpod, None if previous is None else previous.vpods.get(vpod.key))
        for key, places in (reserved or {}).items():
            if places:
                state._add_listed_reservation(
                    state.vpods.get(key) or state.vpods.setdefault(key, VPodEntry(key)), places
                )
        for entry in state.vpods.values():
            state._count_listed_places(entry)
            state._count_vpod(entry)
        for ordinal, slot in state.slots.items():
            old = previous.slots.get(ordinal) if previous is not None else None
            if old is not None and old.since is not None:
                slot.since = min(now, old.since)  # cleared if the Pod is healthy now
        state.classify_all(now)
        if reserved is None:
            state.reserve_from_status()
        return state

    def observe_replicas(self, replicas: int, now: float, ours: bool = False) -> bool:
        """Record `spec.replicas`; `ours` if vpod wrote it. Return whether another client lowered it."""
        self.advance(now)
        before, self.replicas = self.replicas, replicas
        if replicas == before:
            return False
        self.version += 1
        reset = replicas < before and not ours
        if reset:
            self.reset_from, self.reset_since = max(before, self.reset_from or 0), now
        elif self.reset_from is not None and (replicas >= self.reset_from or (ours and replicas < before)):
            self.reset_from = None
        if self.drain is not None and self.drain.target >= replicas:
            self._end_drain()
        for ordinal in [o for o in self.slots if o >= min(before, replicas, self.reset_from or replicas)]:
            self._classify(self.slots[ordinal])
        return reset

    def observe_vpod(self, vpod: VPod, now: float) -> VPodEntry:
        """Update a vpod; its reservation stays."""
        self.advance(now)
        entry = self.vpods.get(vpod.key)
        if entry is None:
            entry = self.vpods[vpod.key] = VPodEntry(vpod.key)
        deleting = vpod.deletion_timestamp is not None
        wanted = 0 if deleting else max(0, vpod.vreplicas)
        weight, priority = weight_of(vpod), priority_of(vpod)
        entry.resource_version = vpod.resource_version
        if (
            entry.listed
            and entry.placements is vpod.placements
            and (entry.wanted, entry.weight, entry.priority, entry.deleting) == (wanted, weight, priority, deleting)
        ):
            return entry
        self.version += 1
        self._count_vpod(entry, -1)
        entry.listed = True
        entry.wanted, entry.priority, entry.deleting = wanted, priority, deleting
        if weight != entry.weight:
            held, status = entry.reserved, entry.status
            self._set_places(entry, NO_PLACES, None)
            entry.weight = weight
            self._set_places(entry, status, held)
        if entry.placements is not vpod.placements:
            if entry.placements != vpod.placements:
                status, entry.invalid = self.places_of(vpod.placements, entry)
                self._record_drain_move(entry.status)
                self._set_places(entry, status, entry.reserved)
            entry.placements = vpod.placements
        self._count_vpod(entry)
        return entry

    def remove_vpod(self, key: Key, now: float) -> None:
        """Release the status and the reservation of a vpod that no longer exists."""
        self.advance(now)
        entry = self.vpods.pop(key, None)
        self.short.pop(key, None)
        if entry is not None:
            self.version += 1
            self._count_vpod(entry, -1)
            self._set_places(entry, NO_PLACES, None)

    def drop_unlisted(self, listed: Iterable[Key], now: float) -> list[Key]:
        """Drop vpods that a listing does not show, and return their keys."""
        alive = set(listed)
        gone = [key for key in self.vpods if key not in alive]
        for key in gone:
            self.remove_vpod(key, now)
        return gone

    def reserve(self, key: Key, places: Places | None, status: Places | None = None) -> None:
        """Replace the vpod's reservation; None or empty deletes it. `status` replaces the status that counts as
        written.
        """
        entry = self.vpods.get(key)
        if entry is None:
            if not places:
                return
            entry = self.vpods[key] = VPodEntry(key)
        self.version += 1
        self._count_vpod(entry, -1)
        self._set_places(
            entry, entry.status if status is None else status, dict(sorted(places.items())) if places else None
        )
        entry.result = self.placements_of(entry.reserved or NO_PLACES)
        self._count_vpod(entry)
        self._drop_unknown(entry)

    def reserve_from_status(self) -> None:
        """Set the reservations to the statuses of all vpods without a deletionTimestamp, for a promotion."""
        for key in list(self.vpods):
            entry = self.vpods[key]
            alive = entry.listed and not entry.deleting
            places = {o: n for o, n in entry.status.items() if n > 0 or not self.options.safe}
            self.reserve(key, places if alive else None)

    def commit(
        self,
        key: Key,
        reservation: Places,
        result: Placements,
        left: int,
        delta: Places,
        base: Places | None,
        rule: str = "",
    ) -> None:
        """Apply a decision: the vpod's reservation, which differs by `delta` from its `base`.

        O(delta) if the reservation is still `base`. `rule` caused the shortage; empty: capacity is missing.
        """
        entry = self.vpods.get(key)
        if entry is None:
            entry = self.vpods[key] = VPodEntry(key)
        self._set_shortage(entry, None if left == 0 else self.now if entry.short_since is None else entry.short_since)
        entry.result = result
        current = entry.reserved is base
        if rule != entry.rule:
            self.version += 1
            self._count_vpod(entry, -1)
            entry.rule = rule
            self._count_vpod(entry)
        if current and not delta and (base is not None or not reservation):
            return
        self.version += 1
        self._record_drain_move(delta)
        self._count_vpod(entry, -1)
        if current:
            self._apply_delta(entry, delta, base, reservation or None)
        else:
            self._set_places(entry, entry.status, reservation or None)
        self._count_vpod(entry)
        self._drop_unknown(entry)

    def _drop_unknown(self, entry: VPodEntry) -> None:
        """Drop a vpod that no listing shows and that has no reservation."""
        if not entry.listed and entry.reserved is None:
            del self.vpods[entry.key]
            self.short.pop(entry.key, None)

    def set_drain(self, goal: DrainGoal | None) -> None:
        """Begin, change or cancel a drain. The affected Pods are on hold, or accept again."""
        self.version += 1
        lowest = min(g.target for g in (self.drain, goal) if g is not None) if self.drain or goal else 0
        self.drain = goal
        if goal is None:
            self._end_drain()
        for ordinal in [o for o in self.slots if o >= lowest]:
            self._classify(self.slots[ordinal])

    def _end_drain(self) -> None:
        """End the drain and all surges. From now on, extra vreplicas are surplus."""
        self.version += 1
        self.drain, self.drain_moved_at = None, None
        for entry in self.vpods.values():
            entry.surge = 0

    def set_surge(self, key: Key, vreplicas: int) -> None:
        """Let a number of the vpod's vreplicas run twice until a drain has moved them."""
        self.version += 1
        self.vpods[key].surge = vreplicas
        self.vpods[key].surge_since = self.now

    def reconfigure(self, options: Options, now: float) -> None:
        """Apply changed settings.

        This alone moves nothing. Rule B15.
        """
        self.version += 1
        self.advance(now)
        for entry in self.vpods.values():
            self._count_vpod(entry, -1)
        recount = options.profile is not self.options.profile
        self.options = options
        if recount:
            held = [(entry, entry.status, entry.reserved) for entry in self.vpods.values()]
            for slot in self.slots.values():
                slot.committed = slot.adding = slot.trimming = 0
            for entry, status, reserved in held:
                entry.status, entry.reserved = NO_PLACES, None
                self._set_places(entry, status, reserved)
        for entry in self.vpods.values():
            self._count_vpod(entry)
        self.classify_all(now)

    def _add_listed_vpod(self, vpod: VPod, before: VPodEntry | None) -> None:
        """Add a vpod without counting it; `before` provides the values that no listing shows. Used by `rebuild`."""
        entry = self.vpods[vpod.key] = VPodEntry(vpod.key)
        entry.listed = True
        entry.deleting = vpod.deletion_timestamp is not None
        entry.wanted = 0 if entry.deleting else max(0, vpod.vreplicas)
        entry.weight, entry.priority = weight_of(vpod), priority_of(vpod)
        entry.resource_version = vpod.resource_version
        entry.placements = vpod.placements
        if vpod.placements:
            entry.status, entry.invalid = self.places_of(vpod.placements)
            entry.status_total = sum(entry.status.values())
        if before is not None:
            entry.rule = before.rule
            self._set_shortage(entry, before.short_since)
            entry.surge, entry.surge_since = before.surge, before.surge_since

    def _add_listed_reservation(self, entry: VPodEntry, places: Places) -> None:
        """Add a reservation without counting it; used by `rebuild`."""
        entry.reserved = dict(sorted(places.items()))
        entry.reserved_total = sum(places.values())
        entry.result = self.placements_of(entry.reserved)
