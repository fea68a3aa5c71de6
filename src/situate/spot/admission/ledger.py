"""Ledger of answers and deletions that the watch does not show yet: reservations and releases.

A frozen value; each step returns the next ledger. A reservation is an answer whose pod has not been seen. A release is
the end of an on-demand pod that is known before the watch shows it. Only on-demand answers count toward the target;
spot answers are recorded for the slot rule. The ledger is in memory only: a new leader starts with an empty one. Rules:
P17 to P22.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeVar

from situate.spot.model.counts import Nodes, counted_pods, effective_capacity, effective_on_demand_count
from situate.spot.model.pods_nodes_workloads import Capacity, PodFacts

_T = TypeVar("_T")

RESERVATION_S: Final = 30.0
RELEASE_S: Final = 15.0
ARRIVAL_S: Final = 1.0
"""Time after an answer by which the pod is stored or refused (K3). If another webhook takes longer, one pod too many is
on demand. Shorter than the time that API servers wait for an answer."""


class Slot(NamedTuple):
    """Key of ledger entries: a workload and one of its revisions."""

    owner: str
    """Uid."""
    revision: str


@dataclass(frozen=True, slots=True)
class Reservation:
    token: str
    pod_class: Capacity
    decided_at: float
    name: str = ""
    """Name of the pod; empty if the API server had not generated it."""
    replica_set: str = ""
    """Uid of the pod's controller; empty if unknown."""

    def fulfilled_by(self, pod: PodFacts) -> bool:
        return bool(self.token and self.token == pod.token) or bool(self.name and self.name == pod.key.name)


@dataclass(frozen=True, slots=True)
class ReleaseEntry:
    name: str
    released_at: float


@dataclass(frozen=True, slots=True)
class Ledger:
    """Entries by slot, the oldest first; slots without entries are removed."""

    reservations: Mapping[Slot, tuple[Reservation, ...]]
    releases: Mapping[Slot, tuple[ReleaseEntry, ...]]
    reservation_s: float = RESERVATION_S
    release_s: float = RELEASE_S
    surges: Mapping[Slot, str] = field(default_factory=dict)
    """Uids of pods deleted in rollouts, each of which has had its one spot answer (B17)."""

    @classmethod
    def empty(cls, reservation_s: float = RESERVATION_S, release_s: float = RELEASE_S) -> Ledger:
        return cls({}, {}, reservation_s, release_s)

    def unmatched_reservations(self, slot: Slot, pods: Collection[PodFacts], now: float) -> list[Reservation]:
        """Return the valid reservations of the slot: not expired, and not fulfilled by any pod, active or not."""
        tokens = {pod.token for pod in pods if pod.token}
        names = {pod.key.name for pod in pods}
        return [
            entry
            for entry in self.reservations.get(slot, ())
            if now - entry.decided_at < self.reservation_s and entry.token not in tokens and entry.name not in names
        ]

    def open_on_demand_count(self, slot: Slot, pods: Collection[PodFacts], now: float) -> int:
        return sum(entry.pod_class is Capacity.ON_DEMAND for entry in self.unmatched_reservations(slot, pods, now))

    def open_releases(self, slot: Slot, pods: Iterable[PodFacts], now: float) -> list[ReleaseEntry]:
        """Return the releases of the slot whose pods the watch still shows as active."""
        active = {pod.key.name for pod in pods if pod.active}
        return [
            entry
            for entry in self.releases.get(slot, ())
            if now - entry.released_at < self.release_s and entry.name in active
        ]

    def find_reservation(self, slot: Slot, name: str, token: str, now: float) -> Reservation | None:
        """Return the valid reservation of this pod, found by its token or its name."""
        for entry in self.reservations.get(slot, ()):
            known = bool(token and entry.token == token) or bool(name and entry.name == name)
            if known and now - entry.decided_at < self.reservation_s:
                return entry
        return None

    def with_reservation(self, slot: Slot, entry: Reservation) -> Ledger:
        """Add an entry; it replaces an entry with the same token or pod name."""
        others = tuple(
            other
            for other in self.reservations.get(slot, ())
            if other.token != entry.token and not (entry.name and other.name == entry.name)
        )
        return replace(self, reservations=_with_slot_entries(self.reservations, slot, (*others, entry)))

    def with_surge(self, slot: Slot, deleted: str) -> Ledger:
        """Record that a pod of the slot was answered spot in place of the pod `deleted`; this happens once for it."""
        return replace(self, surges={**self.surges, slot: deleted})

    def without_reservations(self, slot: Slot, gone: Collection[Reservation]) -> Ledger:
        tokens = {entry.token for entry in gone}
        kept = tuple(entry for entry in self.reservations.get(slot, ()) if entry.token not in tokens)
        return replace(self, reservations=_with_slot_entries(self.reservations, slot, kept))

    def with_release(self, slot: Slot, pod: PodFacts, nodes: Nodes, now: float) -> Ledger:
        """Record the known end of the pod: it stops counting at once.

        Records nothing for four kinds of pods: not counted as on demand, still a reservation, already ending, or
        recorded.
        """
        reserved = any(entry.fulfilled_by(pod) for entry in self.reservations.get(slot, ()))
        known = any(entry.name == pod.key.name for entry in self.releases.get(slot, ()))
        if reserved or known or not pod.live or effective_capacity(pod, nodes) is not Capacity.ON_DEMAND:
            return self
        entries = (*self.releases.get(slot, ()), ReleaseEntry(pod.key.name, now))
        return replace(self, releases=_with_slot_entries(self.releases, slot, entries))

    def without_release(self, slot: Slot, name: str) -> Ledger:
        """Remove the release of a pod that stays because its eviction or deletion was refused."""
        kept = tuple(entry for entry in self.releases.get(slot, ()) if entry.name != name)
        return replace(self, releases=_with_slot_entries(self.releases, slot, kept))

    def without_settled_entries(self, slot: Slot, pods: Collection[PodFacts], now: float) -> Ledger:
        """Remove the slot's entries that are fulfilled, seen to have ended, or expired."""
        open_releases = tuple(self.open_releases(slot, pods, now))
        unmatched = tuple(self.unmatched_reservations(slot, pods, now))
        gone = slot in self.surges and not pods and not unmatched
        return replace(
            self,
            reservations=_with_slot_entries(self.reservations, slot, unmatched),
            releases=_with_slot_entries(self.releases, slot, open_releases),
            surges={key: each for key, each in self.surges.items() if key != slot} if gone else self.surges,
        )

    def without_refused_creates(self, slot: Slot, replica_set: str, pods: Collection[PodFacts], missing: int) -> Ledger:
        """End as many entries of the ReplicaSet as pods are missing after refused creates, the oldest first.

        `pods` and `missing_on_demand` come from a live read. Entries that a pod fulfils do not count among them. Rule:
        P21.
        """
        left = [
            entry
            for entry in self.reservations.get(slot, ())
            if entry.replica_set == replica_set and not any(entry.fulfilled_by(pod) for pod in pods)
        ]
        ended = set(left[: max(0, missing)])
        return self.without_reservations(slot, ended)

    def without_absent_pods(self, slot: Slot, replica_set: str, pods: Collection[PodFacts], began: float) -> Ledger:
        """End the entries of the ReplicaSet that had `ARRIVAL_S` before a live read began and have no pod in it.

        `pods` are those of the read. Their creates were refused, or the pods are gone again.
        """
        gone = [
            entry
            for entry in self.reservations.get(slot, ())
            if entry.replica_set == replica_set
            and entry.decided_at + ARRIVAL_S <= began
            and not any(entry.fulfilled_by(pod) for pod in pods)
        ]
        return self.without_reservations(slot, gone) if gone else self

    def count(self, slot: Slot) -> int:
        """Count the recorded entries of the slot, of both classes."""
        return len(self.reservations.get(slot, ()))


def missing_on_demand(
    ledger: Ledger,
    slot: Slot,
    target: int,
    pods: Collection[PodFacts],
    nodes: Nodes,
    now: float,
    most: int | None = None,
    doubted: int = 0,
) -> int:
    """Return the number of on-demand pods still to be admitted, 0 or more.

    `pods` are the workload's pods of the slot's revision, terminating pods included. `most` limits the number of
    unmatched on-demand entries that count (the slot rule). `doubted` of these entries do not count.
    """
    reserved = ledger.open_on_demand_count(slot, pods, now) - doubted
    if most is not None:
        reserved = min(reserved, most)
    held = (
        effective_on_demand_count(counted_pods(pods), nodes)
        + reserved
        - _count_leaving_on_demand(ledger, slot, pods, nodes, now)
    )
    return max(0, target - held)


def _count_leaving_on_demand(ledger: Ledger, slot: Slot, pods: Collection[PodFacts], nodes: Nodes, now: float) -> int:
    """Count the open releases of pods that still count as on demand."""
    names = {entry.name for entry in ledger.open_releases(slot, pods, now)}
    return sum(
        pod.key.name in names and effective_capacity(pod, nodes) is Capacity.ON_DEMAND for pod in counted_pods(pods)
    )


def _with_slot_entries(
    entries: Mapping[Slot, tuple[_T, ...]], slot: Slot, now: tuple[_T, ...]
) -> Mapping[Slot, tuple[_T, ...]]:
    changed = dict(entries)
    if now:
        changed[slot] = now
    else:
        changed.pop(slot, None)
    return changed
