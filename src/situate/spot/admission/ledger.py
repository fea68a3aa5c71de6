"""What admission has answered and the watch does not show yet: reservations and releases (P17 to P22).

A frozen value with steps that return the next one. A reservation is an on-demand answer whose pod has not been seen; a
release is the end of an on-demand pod that is known before the watch shows it. Spot answers leave no entry that counts;
they are kept on the side for the slot rule. Nothing is written anywhere: a new leader begins with an empty ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeVar

from situate.spot.model.counts import Nodes, counted, effective, on_demand_effective
from situate.spot.model.pods_nodes_workloads import Capacity, PodFacts

_T = TypeVar("_T")

RESERVATION_S: Final = 30.0
RELEASE_S: Final = 15.0
ARRIVED_S: Final = 1.0
"""So long after its answer a pod is in the store, or was refused (K3). Where another webhook takes longer, one pod too
many is on demand. Less than API servers wait for an answer."""


class Slot(NamedTuple):
    """What reservations are kept by: a workload and one of its revisions."""

    owner: str
    """Uid."""
    revision: str


@dataclass(frozen=True, slots=True)
class Reservation:
    token: str
    pod_class: Capacity
    decided_at: float
    name: str = ""
    """Of the pod; empty where the server had not made one."""
    replica_set: str = ""
    """Uid of the pod's controller; empty where it is not known."""

    def fulfilled_by(self, pod: PodFacts) -> bool:
        return bool(self.token and self.token == pod.token) or bool(self.name and self.name == pod.key.name)


@dataclass(frozen=True, slots=True)
class Release:
    name: str
    released_at: float


@dataclass(frozen=True, slots=True)
class Ledger:
    """Entries by slot, the oldest first; slots without entries are not kept."""

    reservations: Mapping[Slot, tuple[Reservation, ...]]
    releases: Mapping[Slot, tuple[Release, ...]]
    reservation_s: float = RESERVATION_S
    release_s: float = RELEASE_S
    surges: Mapping[Slot, str] = field(default_factory=dict)
    """Uids of pods that were deleted in rollouts and whose one spot answer was given (B17)."""

    @classmethod
    def empty(cls, reservation_s: float = RESERVATION_S, release_s: float = RELEASE_S) -> Ledger:
        return cls({}, {}, reservation_s, release_s)

    def unmatched(self, slot: Slot, pods: Collection[PodFacts], now: float) -> list[Reservation]:
        """Reservations of the slot that still hold: not over, and no pod, active or not, fulfils them."""
        tokens = {pod.token for pod in pods if pod.token}
        names = {pod.key.name for pod in pods}
        return [
            entry
            for entry in self.reservations.get(slot, ())
            if now - entry.decided_at < self.reservation_s and entry.token not in tokens and entry.name not in names
        ]

    def open_on_demand(self, slot: Slot, pods: Collection[PodFacts], now: float) -> int:
        return sum(entry.pod_class is Capacity.ON_DEMAND for entry in self.unmatched(slot, pods, now))

    def open_releases(self, slot: Slot, pods: Iterable[PodFacts], now: float) -> list[Release]:
        """Releases of the slot whose pods the watch still shows as active."""
        active = {pod.key.name for pod in pods if pod.active}
        return [
            entry
            for entry in self.releases.get(slot, ())
            if now - entry.released_at < self.release_s and entry.name in active
        ]

    def named(self, slot: Slot, name: str, token: str, now: float) -> Reservation | None:
        """The reservation that already holds for this pod, by its token or its name (P18)."""
        for entry in self.reservations.get(slot, ()):
            known = bool(token and entry.token == token) or bool(name and entry.name == name)
            if known and now - entry.decided_at < self.reservation_s:
                return entry
        return None

    def with_reservation(self, slot: Slot, entry: Reservation) -> Ledger:
        """One more entry; one of the same pod name is replaced."""
        others = tuple(
            other
            for other in self.reservations.get(slot, ())
            if other.token != entry.token and not (entry.name and other.name == entry.name)
        )
        return replace(self, reservations=_with(self.reservations, slot, (*others, entry)))

    def with_surge(self, slot: Slot, deleted: str) -> Ledger:
        """A pod of the slot was answered spot in the place of the deleted one; no other pod will be."""
        return replace(self, surges={**self.surges, slot: deleted})

    def without(self, slot: Slot, gone: Collection[Reservation]) -> Ledger:
        tokens = {entry.token for entry in gone}
        kept = tuple(entry for entry in self.reservations.get(slot, ()) if entry.token not in tokens)
        return replace(self, reservations=_with(self.reservations, slot, kept))

    def release(self, slot: Slot, pod: PodFacts, nodes: Nodes, now: float) -> Ledger:
        """The pod's end is known: it stops counting at once.

        Leaves nothing where it did not count as on demand, is still a reservation, is ending already, or is known.
        """
        reserved = any(entry.fulfilled_by(pod) for entry in self.reservations.get(slot, ()))
        known = any(entry.name == pod.key.name for entry in self.releases.get(slot, ()))
        if reserved or known or not pod.live or effective(pod, nodes) is not Capacity.ON_DEMAND:
            return self
        entries = (*self.releases.get(slot, ()), Release(pod.key.name, now))
        return replace(self, releases=_with(self.releases, slot, entries))

    def unreleased(self, slot: Slot, name: str) -> Ledger:
        """The pod stays after all: what was to end it was refused."""
        kept = tuple(entry for entry in self.releases.get(slot, ()) if entry.name != name)
        return replace(self, releases=_with(self.releases, slot, kept))

    def settled(self, slot: Slot, pods: Collection[PodFacts], now: float) -> Ledger:
        """Without the entries of the slot that are over: fulfilled, seen to have ended, or too old."""
        open_releases = tuple(self.open_releases(slot, pods, now))
        unmatched = tuple(self.unmatched(slot, pods, now))
        gone = slot in self.surges and not pods and not unmatched
        return replace(
            self,
            reservations=_with(self.reservations, slot, unmatched),
            releases=_with(self.releases, slot, open_releases),
            surges={key: each for key, each in self.surges.items() if key != slot} if gone else self.surges,
        )

    def after_live_read(self, slot: Slot, replica_set: str, pods: Collection[PodFacts], missing: int) -> Ledger:
        """Creates were refused: ends as many entries of the ReplicaSet as pods are missing, the oldest first (P21).

        `pods` and `missing` are of a live read. Entries that a pod fulfils are over as well.
        """
        left = [
            entry
            for entry in self.reservations.get(slot, ())
            if entry.replica_set == replica_set and not any(entry.fulfilled_by(pod) for pod in pods)
        ]
        ended = set(left[: max(0, missing)])
        return self.without(slot, ended)

    def after_looking(self, slot: Slot, replica_set: str, pods: Collection[PodFacts], began: float) -> Ledger:
        """Ends the entries of the ReplicaSet that had time to arrive when a live read began, and that it does not show.

        `pods` are those of the read. Their creates were refused, or the pods are gone again.
        """
        gone = [
            entry
            for entry in self.reservations.get(slot, ())
            if entry.replica_set == replica_set
            and entry.decided_at + ARRIVED_S <= began
            and not any(entry.fulfilled_by(pod) for pod in pods)
        ]
        return self.without(slot, gone) if gone else self

    def count(self, slot: Slot) -> int:
        """Entries that are kept of the slot, whatever their class."""
        return len(self.reservations.get(slot, ()))


def missing(
    ledger: Ledger,
    slot: Slot,
    target: int,
    pods: Collection[PodFacts],
    nodes: Nodes,
    now: float,
    most: int | None = None,
    doubted: int = 0,
) -> int:
    """On-demand pods that are still to be admitted, 0 or more.

    `pods` are the workload's pods of the slot's revision, also those that are ending. `most` limits how many
    unmatched on-demand entries count (the slot rule); `doubted` are so many of them that do not.
    """
    reserved = ledger.open_on_demand(slot, pods, now) - doubted
    if most is not None:
        reserved = min(reserved, most)
    held = on_demand_effective(counted(pods), nodes) + reserved - _leaving(ledger, slot, pods, nodes, now)
    return max(0, target - held)


def _leaving(ledger: Ledger, slot: Slot, pods: Collection[PodFacts], nodes: Nodes, now: float) -> int:
    """Open releases of pods that are still counted as on demand."""
    names = {entry.name for entry in ledger.open_releases(slot, pods, now)}
    return sum(pod.key.name in names and effective(pod, nodes) is Capacity.ON_DEMAND for pod in counted(pods))


def _with(entries: Mapping[Slot, tuple[_T, ...]], slot: Slot, now: tuple[_T, ...]) -> Mapping[Slot, tuple[_T, ...]]:
    changed = dict(entries)
    if now:
        changed[slot] = now
    else:
        changed.pop(slot, None)
    return changed
