"""Choose Pods for missing vreplicas: round robin (Spread), zones or nodes first, or the lowest Pods (Pack).

Each function returns the added vreplicas by ordinal: at most `n`, fewer if the free capacity ends. The `VPodView` says
which Pods accept, and how many vreplicas. The policy era's plugins are in `policy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush, merge
from itertools import chain

from situate.vpod.model.options import PackOrder, Topology
from situate.vpod.model.pod_classes import PodClass
from situate.vpod.model.records import Places
from situate.vpod.model.vpod import UNKNOWN_ZONE
from situate.vpod.state.vpod_view import VPodView

AddedVreplicas = dict[int, int]


def spread(situation: VPodView, own: Places, emptied: list[int], n: int) -> AddedVreplicas:
    """Place one vreplica per Pod and pass, on Pods without own vreplicas first (step 7 of "Spread").

    `emptied` are the accepting Pods that lost all own vreplicas in the trim; they come first.
    """
    options = situation.state.options
    if options.topology is not Topology.NONE and options.safe:
        return _spread_over_domains(situation, own, emptied, n)
    if not own and situation.weight == 1 and not situation.known_places():
        pods = situation.state.open.get("", [])
        if n <= len(pods):  # one pass is enough, and every Pod in it has capacity for one
            return dict.fromkeys(pods[:n], 1)
    candidates = chain(emptied, situation.unused_ordinals(own, set(emptied)), sorted(own))
    return _fill_round_robin(situation, own, candidates, n)


def pack(situation: VPodView, own: Places, n: int) -> AddedVreplicas:
    """Fill the own Pods up to their free capacity, then all Pods from ordinal 0. `lowest` skips the first part."""
    ascending: Iterable[int] = merge(situation.unused_ordinals(own, set()), sorted(own))
    if situation.state.options.pack_order is PackOrder.OWN:
        ascending = chain(sorted(own), ascending)
    added: AddedVreplicas = {}
    for ordinal in ascending:
        if n == 0:
            break
        fits = min(n, situation.free_vreplicas(ordinal, own.get(ordinal, 0) + added.get(ordinal, 0)))
        if fits:
            added[ordinal] = added.get(ordinal, 0) + fits
            n -= fits
    return added


def _fill_round_robin(situation: VPodView, own: Places, candidates: Iterable[int], n: int) -> AddedVreplicas:
    added: AddedVreplicas = {}
    again: list[tuple[int, int]] = []  # Pods with capacity for more than their first vreplica, and for how many more
    if n == 0:
        return added
    for ordinal in candidates:
        room = situation.free_vreplicas(ordinal, own.get(ordinal, 0))
        if room:
            added[ordinal] = 1
            n -= 1
            if n == 0:
                return added
            if room > 1:
                again.append((ordinal, room - 1))
    while n and again:
        # many whole passes in one step, as long as no Pod becomes full in them
        passes = min(n // len(again), *(room for _, room in again))
        if passes == 0:
            for ordinal, _ in again[:n]:
                added[ordinal] += 1
            return added
        for ordinal, _ in again:
            added[ordinal] += passes
        n -= passes * len(again)
        again = [(ordinal, room - passes) for ordinal, room in again if room > passes]
    return added


class _Domain:
    """One zone or node: its Pods that may take a vreplica, best first."""

    __slots__ = ("_emptied", "_next", "_situation", "_unused_pods", "_used_pods", "name", "own")

    def __init__(self, name: str, own: int, situation: VPodView, emptied: list[int], fresh: Iterator[int]) -> None:
        self.name = name
        self.own = own  # vreplicas of the vpod in the domain, including those on held Pods
        self._situation = situation
        # heap of own vreplicas, ordinal, free capacity: Pods with own ones
        self._used_pods: list[tuple[int, int, int]] = []
        self._unused_pods = chain(emptied, fresh)
        self._emptied = set(emptied)
        self._next: tuple[int, int, int, int] | None = None  # own, group of step 7 of "Spread", ordinal, free capacity

    def add_pod(self, ordinal: int, own: int, room: int) -> None:
        if room:
            heappush(self._used_pods, (own, ordinal, room))

    def best_pod(self) -> tuple[int, int, int] | None:
        """Return own vreplicas, group and ordinal of the best Pod; None if no Pod has free capacity."""
        if self._next is None:
            for ordinal in self._unused_pods:
                room = self._situation.free_vreplicas(ordinal, 0)
                if room:
                    self._next = (0, 0 if ordinal in self._emptied else 1, ordinal, room)
                    break
        if self._next is not None:
            return self._next[:3]
        if self._used_pods:
            own, ordinal, _ = self._used_pods[0]
            return own, 2, ordinal
        return None

    def take_best(self) -> int:
        """Place one vreplica on the best Pod and return the Pod's ordinal."""
        self.own += 1
        if self._next is not None:
            _, _, ordinal, room = self._next
            self._next = None
            self.add_pod(ordinal, 1, room - 1)
            return ordinal
        own, ordinal, room = heappop(self._used_pods)
        self.add_pod(ordinal, own + 1, room - 1)
        return ordinal


def _spread_over_domains(situation: VPodView, own: Places, emptied: list[int], n: int) -> AddedVreplicas:
    """Place by fewest own vreplicas in the domain, then on the Pod, then in the order of "Spread".

    With `topology_required`, other domains may not get further ahead of a domain without free capacity. Rule B8.
    """
    state = situation.state
    by_domain = own_by_domain(situation, own)
    domains: dict[str, _Domain] = {}
    for name in sorted({*state.open, *by_domain, *(state.slots[o].domain for o in emptied)}):
        fresh = situation.unused_ordinals(own, set(emptied), name)
        here = [o for o in emptied if state.slots[o].domain == name]
        domains[name] = _Domain(name, by_domain.get(name, 0), situation, here, fresh)
    for ordinal, held in own.items():
        slot = state.slots.get(ordinal)
        if slot is not None and slot.domain in domains:
            domains[slot.domain].add_pod(ordinal, held, situation.free_vreplicas(ordinal, held))
    for ordinal in situation.known_places() - own.keys():  # Pods that are full for others, but not for this vpod
        slot = state.slots.get(ordinal)
        if slot is not None and slot.domain not in domains and situation.free_vreplicas(ordinal, 0):
            fresh = situation.unused_ordinals(own, set(emptied), slot.domain)
            domains[slot.domain] = _Domain(slot.domain, 0, situation, [], fresh)
    lagging = _fewest_in_full_domains(situation, domains, by_domain) if state.options.topology_required else None
    queue = [((d.own, *best), d.name) for d in domains.values() if (best := d.best_pod()) is not None]
    heapify(queue)
    added: AddedVreplicas = {}
    while n and queue:
        _, name = heappop(queue)
        domain = domains[name]
        if lagging is not None and domain.own > lagging:
            break
        ordinal = domain.take_best()
        added[ordinal] = added.get(ordinal, 0) + 1
        n -= 1
        best = domain.best_pod()
        if best is not None:
            heappush(queue, ((domain.own, *best), name))
        elif lagging is not None:
            lagging = min(lagging, domain.own)
    return added


def own_by_domain(situation: VPodView, own: Places) -> Mapping[str, int]:
    """Return the vpod's vreplicas by zone or node. Vreplicas on Pods without a domain do not count."""
    totals: dict[str, int] = {}
    for ordinal, held in own.items():
        slot = situation.state.slots.get(ordinal)
        if slot is not None and slot.domain:
            totals[slot.domain] = totals.get(slot.domain, 0) + held
    return totals


def _fewest_in_full_domains(situation: VPodView, domains: Mapping[str, _Domain], own: Mapping[str, int]) -> float:
    """Return the fewest own vreplicas in a domain that counts and has no free capacity; infinite if there is none."""
    state = situation.state
    blocked = [
        float(d.own) for d in domains.values() if d.name and d.best_pod() is None and _domain_counts(situation, d.name)
    ]
    if state.options.topology is Topology.ZONE:
        expected = usable_zones(situation)
    else:  # a node without a Pod of the StatefulSet does not count
        expected = {slot.domain for slot in state.slots.values() if slot.verdict.pod_class is PodClass.ACCEPT}
    blocked += [float(own.get(name, 0)) for name in expected if name not in domains]
    return min(blocked, default=float("inf"))


def _domain_counts(situation: VPodView, domain: str) -> bool:
    """Return whether a domain counts: a zone needs a usable node, and a node must be usable."""
    state = situation.state
    if not state.nodes_known:
        return True
    if state.options.topology is Topology.ZONE:
        return domain in usable_zones(situation)
    node = state.nodes.get(domain)
    return node is not None and not node.unschedulable and node.ready and not node.unreachable


def usable_zones(situation: VPodView) -> set[str]:
    """Return the zones with at least one node that can run Pods."""
    nodes = situation.state.nodes.values()
    return {n.zone or UNKNOWN_ZONE for n in nodes if not n.unschedulable and n.ready and not n.unreachable}
