"""What is known and counted of one StatefulSet: kept, and changed by events and decisions in O(entries touched).

Each ordinal that has a pod, or on which anything is placed or reserved, has a `Slot` of `records`; nothing else takes
memory, so it is bounded by pods plus placement entries however large an ordinal a status names (D11). Each vpod has an
`Entry`. Deciding is left to `decide`, the JSON form to `state_json`. Only this module changes a slot's counts.

Time only moves forward and comes in as an argument: a pod out of order is held until `pod_grace` has passed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

from situate.vpod.model import (
    UNKNOWN_ZONE,
    Key,
    Placement,
    Placements,
    VPod,
    ordinal_of,
    pod_name,
    priority_of,
    weight_of,
)
from situate.vpod.options import Options, Topology
from situate.vpod.pods import ACCEPTED, Cause, NodeFacts, PodClass, PodFacts, Verdict, is_true, trouble
from situate.vpod.records import NO_PLACES, DrainGoal, Entry, Places, Slot, differing

T = TypeVar("T")


class State:
    """One StatefulSet's pods, vpods, placements and reservations. Equal histories give equal states (S9)."""

    def __init__(self, options: Options, replicas: int = 0, now: float = 0.0) -> None:
        self.options = options
        self.replicas = replicas
        self.now = now
        self.version = 0  # another one after every change: without one, the same question has the same answer
        self.nodes: dict[str, NodeFacts] = {}
        self.nodes_known = False
        self.slots: dict[int, Slot] = {}
        self.vpods: dict[Key, Entry] = {}
        self.drain: DrainGoal | None = None
        self.drain_moved_at: float | None = None  # when something last left the ordinals that are drained
        self.reset_from: int | None = None  # R before somebody else lowered it, as long as that is held against
        self.reset_since = 0.0
        self.open: dict[str, list[int]] = {}  # by domain: ordinals with room, ascending
        self.ousted: set[int] = set()  # ordinals where something has to go: rejecting or overcommitted
        self.causes: Counter[Cause] = Counter()  # of the existing pods below R; NONE: they accept
        self.wants: Counter[str] = Counter()  # by namespace: units asked for
        self.used: Counter[str] = Counter()  # by namespace: units reserved
        self.pending: Counter[int] = Counter()  # by priority: units asked for and not reserved, for want of room
        self._ordinals: dict[str, int] = {}
        self._on_node: dict[str, set[int]] = {}
        self._deadlines: dict[int, float] = {}  # ordinal: when its hold ends
        self._next_deadline = float("inf")

    @classmethod
    def rebuilt(
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
        """The state as listings show it.

        `reserved` None: reservations are rebuilt from the statuses of vpods that are not being deleted, as a
        promotion does (D1). `nodes` None: nodes cannot be listed, so they are trusted. `previous` lends what no
        listing shows: since when pods have been out of order, a drain, replicas that somebody else lowered.
        """
        state = cls(options, replicas, now)
        if previous is not None:
            state.drain, state.drain_moved_at = previous.drain, previous.drain_moved_at
            state.reset_from, state.reset_since = previous.reset_from, previous.reset_since
        if nodes is not None:
            state.nodes_known = True
            state.nodes = {node.name: node for node in nodes}
        for pod in pods:
            state._list_pod(pod)
        for vpod in vpods:
            state._list_vpod(vpod, None if previous is None else previous.vpods.get(vpod.key))
        for key, places in (reserved or {}).items():
            if places:
                state._list_reserved(state.vpods.get(key) or state.vpods.setdefault(key, Entry(key)), places)
        for entry in state.vpods.values():
            state._charge(entry)
            state._count(entry)
        for ordinal, slot in state.slots.items():
            old = previous.slots.get(ordinal) if previous is not None else None
            if old is not None and old.since is not None:
                slot.since = min(now, old.since)  # forgotten if the pod is in order now
        state.judge_all(now)
        if reserved is None:
            state.reserve_from_status()
        return state

    def observe_pod(self, pod: PodFacts, now: float) -> None:
        """A pod is as described. Pods of other StatefulSets are ignored (D12)."""
        self.advance(now)
        ordinal = self.ordinal(pod.name)
        if ordinal is None:
            return
        slot = self._slot(ordinal)
        if slot.pod == pod:
            return
        self._unlink(slot)
        self._replace_pod(slot, pod)
        self._judge(slot)

    def pod_gone(self, name: str, now: float) -> None:
        """The pod does not exist any more."""
        self.advance(now)
        slot = self.slots.get(self._ordinals.get(name, -1))
        if slot is None or slot.pod is None:
            return
        self._unlink(slot)
        self._replace_pod(slot, None)
        self._judge(slot)
        self._drop_if_idle(slot)

    def observe_node(self, node: NodeFacts, now: float) -> None:
        """A node is as described. The first node that is observed makes unknown nodes count as gone."""
        self.advance(now)
        first = not self.nodes_known
        self.nodes_known = True
        before = self.nodes.get(node.name)
        self.nodes[node.name] = node
        if first:
            self.judge_all(now)
        elif before != node:
            self.version += 1  # a zone counts also where no pod is
            self._judge_node(node.name)

    def node_gone(self, name: str, now: float) -> None:
        self.advance(now)
        if self.nodes.pop(name, None) is not None:
            self.version += 1
            self._judge_node(name)

    def observe_replicas(self, replicas: int, now: float, ours: bool = False) -> bool:
        """spec.replicas is so; `ours` when we asked for it. True when somebody else lowered it (ReplicasReset)."""
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
            self._judge(self.slots[ordinal])
        return reset

    def observe_vpod(self, vpod: VPod, now: float) -> Entry:
        """A vpod is as described; its reservation stays."""
        self.advance(now)
        entry = self.vpods.get(vpod.key)
        if entry is None:
            entry = self.vpods[vpod.key] = Entry(vpod.key)
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
        self._count(entry, -1)
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
                self._note_drain_move(entry.status)
                self._set_places(entry, status, entry.reserved)
            entry.placements = vpod.placements
        self._count(entry)
        return entry

    def vpod_gone(self, key: Key, now: float) -> None:
        """The vpod does not exist any more: its status and its reservation are released (D24)."""
        self.advance(now)
        entry = self.vpods.pop(key, None)
        if entry is not None:
            self.version += 1
            self._count(entry, -1)
            self._set_places(entry, NO_PLACES, None)

    def drop_unlisted(self, listed: Iterable[Key], now: float) -> list[Key]:
        """Forgets vpods that a listing does not show; which ones."""
        alive = set(listed)
        gone = [key for key in self.vpods if key not in alive]
        for key in gone:
            self.vpod_gone(key, now)
        return gone

    def reserve(self, key: Key, places: Places | None) -> None:
        """Replaces the vpod's reservation; None or empty deletes it."""
        entry = self.vpods.get(key)
        if entry is None:
            if not places:
                return
            entry = self.vpods[key] = Entry(key)
        self.version += 1
        self._count(entry, -1)
        self._set_places(entry, entry.status, dict(sorted(places.items())) if places else None)
        entry.result = self.placements_of(entry.reserved or NO_PLACES)
        self._count(entry)
        if not entry.listed and entry.reserved is None:
            del self.vpods[key]

    def reserve_from_status(self) -> None:
        """Promotion: reservations are the statuses of all vpods that are not being deleted, nothing else (D1)."""
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
        ruled_out: bool = False,
    ) -> None:
        """What a decision changes: the vpod's reservation, which differs by `delta` from the `base` it was made on.

        O(delta), unless the reservation is no longer that one. `ruled_out`: a rule, not room, left some over.
        """
        entry = self.vpods.get(key)
        if entry is None:
            entry = self.vpods[key] = Entry(key)
        entry.short_since = None if left == 0 else self.now if entry.short_since is None else entry.short_since
        entry.result = result
        current = entry.reserved is base
        if ruled_out is not entry.ruled_out:
            self.version += 1
            self._count(entry, -1)
            entry.ruled_out = ruled_out
            self._count(entry)
        if current and not delta and (base is not None or not reservation):
            return
        self.version += 1
        self._note_drain_move(delta)
        self._count(entry, -1)
        if current:
            self._shift(entry, delta, base, reservation or None)
        else:
            self._set_places(entry, entry.status, reservation or None)
        self._count(entry)
        if not entry.listed and entry.reserved is None:
            del self.vpods[key]

    def set_drain(self, goal: DrainGoal | None) -> None:
        """Begin, change or cancel a drain; the pods concerned are held, or accept again."""
        self.version += 1
        lowest = min(g.target for g in (self.drain, goal) if g is not None) if self.drain or goal else 0
        self.drain = goal
        if goal is None:
            self._end_drain()
        for ordinal in [o for o in self.slots if o >= lowest]:
            self._judge(self.slots[ordinal])

    def _end_drain(self) -> None:
        """Nothing runs twice on purpose any more: what does is too much."""
        self.version += 1
        self.drain, self.drain_moved_at = None, None
        for entry in self.vpods.values():
            entry.surge = 0

    def set_surge(self, key: Key, vreplicas: int) -> None:
        """So many vreplicas of the vpod run twice on purpose, until a drain has moved them."""
        self.version += 1
        self.vpods[key].surge = vreplicas
        self.vpods[key].surge_since = self.now

    def reconfigure(self, options: Options, now: float) -> None:
        """The settings changed (B15); nothing moves by this alone."""
        self.version += 1
        self.advance(now)
        for entry in self.vpods.values():
            self._count(entry, -1)
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
            self._count(entry)
        self.judge_all(now)

    def advance(self, now: float) -> None:
        """Holds that have lasted long enough end. Time that stands still or turns back is ignored."""
        if now <= self.now:
            return
        self.now = now
        if now < self._next_deadline:
            return
        if self.reset_from is not None and now >= self.reset_since + self.options.pod_grace:
            self.reset_from = None
            self.version += 1
        for ordinal in sorted(o for o, deadline in self._deadlines.items() if deadline <= now):
            self._judge(self.slots[ordinal])
        self._next_deadline = min(self._deadlines.values(), default=float("inf"))

    def next_deadline(self) -> float | None:
        """When the next hold ends, if nothing changes before."""
        return None if self._next_deadline == float("inf") else self._next_deadline

    def judge_all(self, now: float) -> None:
        """Every pod's class anew, from the facts."""
        self.now = max(self.now, now)
        for slot in list(self.slots.values()):
            self._judge(slot)

    def verdict(self, ordinal: int) -> Verdict:
        """The class of a pod, be there one or not."""
        slot = self.slots.get(ordinal)
        return slot.verdict if slot is not None else self._verdict(None, ordinal, self.now)

    def is_drained(self, ordinal: int) -> bool:
        """Whether a drain empties this ordinal, whatever else holds its pod."""
        return self.drain is not None and ordinal >= self.drain.target

    def free(self, ordinal: int) -> int:
        """Units that may still be added on a pod, whatever its class; negative where it is overcommitted."""
        slot = self.slots.get(ordinal)
        return self.options.capacity - (slot.adding if slot is not None else 0)

    def reservations(self) -> dict[Key, dict[int, int]]:
        """A copy, without vpods that have none."""
        return {key: dict(entry.reserved) for key, entry in self.vpods.items() if entry.reserved}

    def holds_from(self, ordinal: int) -> bool:
        """Whether any status placement or reservation lies on this ordinal or a higher one."""
        return any(o >= ordinal and (slot.adding > 0 or slot.committed > 0) for o, slot in self.slots.items())

    def ordinal(self, pod: str) -> int | None:
        """The ordinal of one of our pods, or None (D10, D12)."""
        known = self._ordinals.get(pod)
        return known if known is not None else ordinal_of(pod, self.options.statefulset_name)

    def domain(self, slot: Slot) -> str | None:
        """The zone or node that the pod is in, as `topology` says; None while it is nowhere."""
        if slot.pod is None or not slot.pod.node:
            return None
        if self.options.topology is Topology.NODE:
            return slot.pod.node
        node = self.nodes.get(slot.pod.node)
        return (node.zone if node is not None else None) or UNKNOWN_ZONE

    def places_of(self, placements: Placements, entry: Entry | None = None) -> tuple[Places, Placements]:
        """A status by ordinal, duplicates summed, and those of its entries that cannot be charged to a pod of ours."""
        if entry is not None and self.options.safe and placements == entry.result and entry.reserved is not None:
            return entry.reserved, ()  # a result is its reservation, but in the policy era's shortages
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
        """Sorted by ordinal."""
        slots, name = self.slots, self.options.statefulset_name
        return tuple(
            Placement(slots[o].name if o in slots else pod_name(name, o), n) for o, n in sorted(places.items())
        )

    def _list_pod(self, pod: PodFacts) -> None:
        """For `rebuilt`: a pod that is judged later."""
        ordinal = self.ordinal(pod.name)
        if ordinal is None:
            return
        slot = self.slots.get(ordinal)
        if slot is None:
            slot = self.slots[ordinal] = Slot(ordinal, pod.name)
            self._ordinals[slot.name] = ordinal
        self._unlink(slot)
        self._replace_pod(slot, pod)

    def _list_vpod(self, vpod: VPod, before: Entry | None) -> None:
        """For `rebuilt`: a vpod that is not counted yet, with what no listing shows of it taken from `before`."""
        entry = self.vpods[vpod.key] = Entry(vpod.key)
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
            entry.ruled_out, entry.short_since = before.ruled_out, before.short_since
            entry.surge, entry.surge_since = before.surge, before.surge_since

    def _list_reserved(self, entry: Entry, places: Places) -> None:
        """For `rebuilt`: a reservation that is not counted yet."""
        entry.reserved = dict(sorted(places.items()))
        entry.reserved_total = sum(places.values())
        entry.result = self.placements_of(entry.reserved)

    def _charge(self, entry: Entry) -> None:
        """For `rebuilt`: counts what a vpod holds, on slots that are judged later."""
        weight, status = entry.weight, entry.status
        held = entry.reserved if entry.reserved is not None else status if self.options.safe else NO_PLACES
        for ordinal in status.keys() | held.keys():
            slot = self.slots.get(ordinal) or self._slot(ordinal)
            here, there = status.get(ordinal, 0), held.get(ordinal, 0)
            slot.committed += here * weight
            slot.trimming += there * weight
            slot.adding += (max(here, there) if self.options.safe else there) * weight

    def _set_places(self, entry: Entry, status: Places, reserved: Places | None) -> None:
        """Replaces a vpod's status and reservation, and moves what the slots count; O(entries)."""
        if not self.options.safe:
            self._recount_reference(entry, status, reserved)
        elif reserved is entry.reserved and reserved is not None:
            self._recount_status(entry, status, reserved)
        else:
            self._recount(entry, status, reserved)
        entry.status, entry.reserved = status, reserved
        entry.status_total = sum(status.values())
        entry.reserved_total = sum(reserved.values()) if reserved else 0

    def _recount(self, entry: Entry, status: Places, reserved: Places | None) -> None:
        weight, old_status = entry.weight, entry.status
        old_held = old_status if entry.reserved is None else entry.reserved
        held = status if reserved is None else reserved
        for ordinal in {*differing(old_status, status), *differing(old_held, held)}:
            slot = self._slot(ordinal)
            was_status, is_status = old_status.get(ordinal, 0), status.get(ordinal, 0)
            was_held, is_held = old_held.get(ordinal, 0), held.get(ordinal, 0)
            slot.committed += (is_status - was_status) * weight
            slot.trimming += (is_held - was_held) * weight
            slot.adding += (max(is_status, is_held) - max(was_status, was_held)) * weight
            self._refresh(slot)

    def _recount_status(self, entry: Entry, status: Places, reserved: Places) -> None:
        """The common case, a status that follows its reservation: only what it says beyond that takes room."""
        weight, old = entry.weight, entry.status
        for ordinal in differing(old, status):
            slot = self._slot(ordinal)
            was, now, held = old.get(ordinal, 0), status.get(ordinal, 0), reserved.get(ordinal, 0)
            slot.committed += (now - was) * weight
            if was > held or now > held or not slot.committed:
                slot.adding += (max(now, held) - max(was, held)) * weight
                self._refresh(slot)

    def _recount_reference(self, entry: Entry, status: Places, reserved: Places | None) -> None:
        """The reference lets nothing but reservations take room."""
        weight = entry.weight
        old, new = entry.reserved or NO_PLACES, reserved or NO_PLACES
        for ordinal in {*differing(entry.status, status), *differing(old, new)}:
            slot = self._slot(ordinal)
            slot.committed += (status.get(ordinal, 0) - entry.status.get(ordinal, 0)) * weight
            change = (new.get(ordinal, 0) - old.get(ordinal, 0)) * weight
            slot.adding += change
            slot.trimming += change
            self._refresh(slot)

    def _note_drain_move(self, touched: Iterable[int]) -> None:
        """Remembers when ordinals that are drained last changed; a smaller scale waits for that to settle."""
        if self.drain is not None and any(ordinal >= self.drain.target for ordinal in touched):
            self.drain_moved_at = self.now

    def _shift(self, entry: Entry, delta: Places, old: Places | None, reserved: Places | None) -> None:
        """As `_set_places` for a reservation alone, of which only `delta` changes; O(delta)."""
        if not self.options.safe or ((old is None or reserved is None) and entry.status):
            self._set_places(entry, entry.status, reserved)
            return
        weight, status, capacity = entry.weight, entry.status, self.options.capacity
        slots, ousted, places = self.slots, self.ousted, reserved or NO_PLACES
        for ordinal, change in delta.items():
            slot = slots.get(ordinal) or self._slot(ordinal)
            held = places.get(ordinal, 0)
            slot.trimming += change * weight
            if ordinal in status:
                committed = status[ordinal]
                change = max(committed, held) - max(committed, held - change)
            slot.adding += change * weight
            if slot.open is not (slot.adding < capacity) or slot.trimming > capacity or ordinal in ousted:
                self._refresh(slot)
        entry.reserved = reserved
        entry.reserved_total += sum(delta.values())

    def _refresh(self, slot: Slot) -> None:
        """Brings `open` and `ousted` in line with a slot's counts and verdict."""
        capacity = self.options.capacity
        pod_class = slot.verdict.pod_class
        is_open = pod_class is PodClass.ACCEPT and slot.adding < capacity
        if is_open is not slot.open:
            slot.open = is_open
            if is_open:
                insort(self.open.setdefault(slot.domain, []), slot.ordinal)
            else:
                self._close(slot)
        if pod_class is PodClass.REJECT or slot.trimming > capacity:
            self.ousted.add(slot.ordinal)
        elif self.ousted:
            self.ousted.discard(slot.ordinal)
        if slot.pod is None:
            self._drop_if_idle(slot)

    def _close(self, slot: Slot) -> None:
        ordinals = self.open[slot.domain]
        del ordinals[bisect_left(ordinals, slot.ordinal)]
        if not ordinals:
            del self.open[slot.domain]

    def _slot(self, ordinal: int) -> Slot:
        slot = self.slots.get(ordinal)
        if slot is None:
            slot = self.slots[ordinal] = Slot(ordinal, pod_name(self.options.statefulset_name, ordinal))
            self._ordinals[slot.name] = ordinal
            # there is no pod, else there were a slot: it is held, or rejected, from now on
            slot.verdict = self._verdict(slot, ordinal, self.now)
            self._remember_deadline(slot)
        return slot

    def _drop_if_idle(self, slot: Slot) -> None:
        """Sparse: a slot without pod and without anything on it is forgotten (D11)."""
        if slot.pod is None and not slot.committed and not slot.adding and not slot.trimming:
            self.slots.pop(slot.ordinal, None)
            self._ordinals.pop(slot.name, None)
            self._deadlines.pop(slot.ordinal, None)
            self.ousted.discard(slot.ordinal)

    def _replace_pod(self, slot: Slot, pod: PodFacts | None) -> None:
        slot.pod = pod
        if pod is not None and pod.node:
            self._on_node.setdefault(pod.node, set()).add(slot.ordinal)

    def _unlink(self, slot: Slot) -> None:
        if slot.pod is not None and slot.pod.node:
            there = self._on_node[slot.pod.node]
            there.discard(slot.ordinal)
            if not there:
                del self._on_node[slot.pod.node]

    def _judge_node(self, name: str) -> None:
        for ordinal in sorted(self._on_node.get(name, ())):
            self._judge(self.slots[ordinal])

    def _judge(self, slot: Slot) -> None:
        """A slot's class anew, and all that follows from it."""
        self.version += 1
        slot.verdict = self._verdict(slot, slot.ordinal, self.now)
        domain = (self.domain(slot) or "") if self.options.topology is not Topology.NONE else ""
        if domain != slot.domain:
            if slot.open:
                self._close(slot)
                slot.open = False
            slot.domain = domain
        self._remember_deadline(slot)
        self._count_cause(slot)
        self._refresh(slot)

    def _remember_deadline(self, slot: Slot) -> None:
        until = slot.verdict.until
        if until is None:
            self._deadlines.pop(slot.ordinal, None)
        else:
            self._deadlines[slot.ordinal] = until
            self._next_deadline = min(self._next_deadline, until)

    def _verdict(self, slot: Slot | None, ordinal: int, now: float) -> Verdict:
        """Section 3's table; the first match wins. Keeps the slot's `since`."""
        options = self.options
        pod = slot.pod if slot is not None else None
        if not options.safe:
            return self._reference_verdict(pod, ordinal)
        node = self.nodes.get(pod.node) if pod is not None and pod.node else None
        cause = trouble(pod, node, self.nodes_known, options)
        since = now if slot is None or slot.since is None else slot.since
        if slot is not None:
            slot.since = None if cause is Cause.NONE else since
        if pod is not None and is_true(pod.annotation):
            return Verdict(PodClass.REJECT, Cause.UNSCHEDULABLE)
        if ordinal >= self.replicas:
            until = self.reset_since + options.pod_grace
            if self.reset_from is not None and ordinal < self.reset_from and now < until:
                return Verdict(PodClass.HOLD, Cause.REPLICAS_RESET, until)
            return Verdict(PodClass.REJECT, Cause.BEYOND_REPLICAS)
        if cause is not Cause.NONE:
            until = since + options.pod_grace
            return Verdict(PodClass.HOLD, cause, until) if now < until else Verdict(PodClass.REJECT, cause)
        if node is not None and node.unschedulable:
            return Verdict(PodClass.HOLD, Cause.CORDONED)
        if self.is_drained(ordinal):
            return Verdict(PodClass.HOLD, Cause.DRAINING)
        return ACCEPTED

    def _reference_verdict(self, pod: PodFacts | None, ordinal: int) -> Verdict:
        if pod is None:
            return Verdict(PodClass.REJECT, Cause.MISSING)
        if is_true(pod.annotation):
            return Verdict(PodClass.REJECT, Cause.UNSCHEDULABLE)
        if ordinal >= self.replicas:
            return Verdict(PodClass.REJECT, Cause.BEYOND_REPLICAS)
        return ACCEPTED if pod.node else Verdict(PodClass.REJECT, Cause.PENDING)

    def _count_cause(self, slot: Slot) -> None:
        """Counts an existing pod below R by its cause; those that accept under `Cause.NONE`."""
        if slot.counted is not None:
            _raise(self.causes, slot.counted, -1)
        slot.counted = slot.verdict.cause if slot.pod is not None and slot.ordinal < self.replicas else None
        if slot.counted is not None:
            _raise(self.causes, slot.counted, 1)

    def _count(self, entry: Entry, sign: int = 1) -> None:
        """Adds a vpod to the sums by namespace and priority. One that no pod could ever hold is in none (B10)."""
        namespace, weight = entry.key.namespace, entry.weight
        _raise(self.used, namespace, sign * entry.reserved_total * weight)
        if weight <= self.options.capacity:
            _raise(self.wants, namespace, sign * entry.wanted * weight)
            if entry.wanted > entry.reserved_total and not entry.ruled_out:
                _raise(self.pending, entry.priority, sign * (entry.wanted - entry.reserved_total) * weight)


def _raise(counter: Counter[T], name: T, amount: int) -> None:
    """Adds; a count of zero is not kept."""
    if amount:
        counter[name] += amount
        if not counter[name]:
            del counter[name]
