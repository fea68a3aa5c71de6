"""Invariants of sharding, checked on a log of events: safety S1 to S11, liveness L1 and L2 (B12).

docs/spec/sharding.md states them. The checker uses only the log and shares no code with the deciding code. It reads
events in their order in the log, also those of one moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, assert_never

from situate.testing.sharding.events import (
    Ack,
    ArchivePut,
    ArchiveVerified,
    Assign,
    Crash,
    Deleted,
    Eligible,
    Event,
    FinalizerRemoved,
    Incarnation,
    Ineligible,
    LeaseLost,
    ObjectCompleted,
    ObjectCreated,
    Revoke,
    Start,
    Stop,
    Write,
)

INVARIANTS: Final = (*(f"S{number}" for number in range(1, 12)), "L1", "L2")
"""The names of the invariants checked here."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits in seconds. None: not checked."""

    first_assignment_s: float | None = None
    """L1: from the creation, or from the time since which an executor has always been eligible, if that is later."""
    reassignment_s: float | None = None
    """L2: from the loss of the holder, whether or not an executor is eligible."""
    lease_duration_s: float = 15.0
    """Minimum time from a revocation without a proof of the old holder's end to a new holder (S5)."""


@dataclass(frozen=True, slots=True)
class ShardingBreach:
    """One breach of an invariant."""

    invariant: str
    t: float
    message: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.t:g} s: {self.message}"


def breaches(events: Iterable[Event], limits: Limits = Limits()) -> list[ShardingBreach]:
    """Return all breaches in the order of detection.

    Those of liveness are found at the end of the wait or of the log.
    """
    return list(_Checker(limits).check_events(events))


def broken_invariants(events: Iterable[Event], limits: Limits = Limits()) -> frozenset[str]:
    """Return the names of the broken invariants."""
    return frozenset(breach.invariant for breach in breaches(events, limits))


@dataclass(slots=True)
class _Object:
    """One UID."""

    uid: str
    created: float | None = None
    """None: the log begins after the creation."""
    epoch: int = 0
    """The stored epoch. 0: never assigned."""
    highest: int = 0
    holder: Incarnation | None = None
    """The incarnation in the stored assignment."""
    previous: Incarnation | None = None
    """The last assigned incarnation. None: none so far."""
    given_up: bool = False
    """Whether the previous holder acked, lost its Lease or crashed since its assignment."""
    revoked_at: float | None = None
    """None: the present or last assignment was not revoked."""
    lost_at: float | None = None
    """Since when the holder is lost. None while it is not."""
    completed: bool = False
    active: set[Incarnation] = field(default_factory=set)


class _Checker:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._objects: dict[str, _Object] = {}  # by name, the latest UID
        self._eligible: set[Incarnation] = set()
        self._eligible_since: float | None = None  # since when an executor has always been eligible
        self._gone: set[Incarnation] = set()
        self._term: int | None = None
        self._keys: dict[tuple[str, int | str], str] = {}
        self._verified: set[tuple[str, int | str]] = set()
        self._finalizer_removed: set[str] = set()

    def check_events(self, events: Iterable[Event]) -> Iterator[ShardingBreach]:
        end = 0.0
        for event in events:
            end = max(end, event.t)
            yield from self._check_event(event)
        for name, each in self._objects.items():
            yield from self._check_unassigned_wait(name, each, end)
            yield from self._check_orphaned_wait(name, each, end)

    def _check_event(self, event: Event) -> Iterator[ShardingBreach]:
        match event:
            case ObjectCreated():
                known = self._objects.get(event.obj)
                if known is None or known.uid != event.uid:
                    self._objects[event.obj] = _Object(event.uid, event.t)
            case Eligible():
                self._eligible.add(event.incarnation)
                self._gone.discard(event.incarnation)
                if self._eligible_since is None:
                    self._eligible_since = event.t
            case Ineligible():
                yield from self._end_eligibility(event.incarnation, event.t)
            case LeaseLost() | Crash():
                yield from self._end_eligibility(event.incarnation, event.t)
                self._record_loss(event.incarnation, event.t, crashed=isinstance(event, Crash))
            case Assign():
                yield from self._check_assignment(event)
            case Revoke():
                yield from self._check_revocation(event)
            case Start():
                yield from self._check_start(event)
            case Stop():
                self._object_of(event.obj).active.discard(event.incarnation)
            case Ack():
                self._record_ack(event)
            case Write():
                yield from self._check_write(event)
            case ObjectCompleted():
                each = self._object_of(event.obj)
                yield from self._check_unassigned_wait(event.obj, each, event.t)
                yield from self._check_orphaned_wait(event.obj, each, event.t)
                each.completed = True
            case ArchivePut() | ArchiveVerified() | FinalizerRemoved() | Deleted():
                yield from self._check_archive(event)
            case other:
                assert_never(other)

    def _object_of(self, name: str) -> _Object:
        """Return an object. One that existed before the log began has its name as UID."""
        return self._objects.setdefault(name, _Object(name))

    def _end_eligibility(self, incarnation: Incarnation, t: float) -> Iterator[ShardingBreach]:
        self._eligible.discard(incarnation)
        if self._eligible or self._eligible_since is None:
            return
        for name, each in self._objects.items():
            yield from self._check_unassigned_wait(name, each, t)
        self._eligible_since = None

    def _record_loss(self, incarnation: Incarnation, t: float, *, crashed: bool) -> None:
        self._gone.add(incarnation)
        for each in self._objects.values():
            if crashed:
                each.active.discard(incarnation)
            if each.previous == incarnation:
                each.given_up = True
            if each.holder == incarnation and each.lost_at is None:
                each.lost_at = t

    def _check_assignment(self, event: Assign) -> Iterator[ShardingBreach]:
        each, new = self._object_of(event.obj), event.incarnation
        yield from self._check_epoch(event, each)
        if new not in self._eligible:
            yield ShardingBreach("S4", event.t, f"{event.obj} is assigned to {new}, which is not eligible")
        if each.previous not in (None, new) and not each.given_up and not self._has_lease_expired(each, event.t):
            yield ShardingBreach(
                "S5", event.t, f"{event.obj} is assigned to {new} although {each.previous} never released it"
            )
        if each.completed:
            yield ShardingBreach("S6", event.t, f"{event.obj} is completed, and assigned to {new}")
        if event.term is not None:
            if self._term is not None and event.term < self._term:
                said = f"{event.obj} is assigned in term {event.term} after term {self._term} has assigned"
                yield ShardingBreach("S10", event.t, said)
            self._term = max(event.term, self._term or 0)
        yield from self._check_unassigned_wait(event.obj, each, event.t)
        yield from self._check_orphaned_wait(event.obj, each, event.t)
        each.holder = each.previous = new
        each.given_up = new in self._gone
        each.revoked_at = None
        each.lost_at = event.t if new in self._gone else None

    def _has_lease_expired(self, each: _Object, t: float) -> bool:
        """Return whether the Lease of a holder with a revoked assignment must have expired."""
        return each.revoked_at is not None and t >= each.revoked_at + self._limits.lease_duration_s

    def _check_epoch(self, event: Assign | Revoke, each: _Object) -> Iterator[ShardingBreach]:
        if event.epoch <= each.highest:
            yield ShardingBreach("S3", event.t, f"{event.obj} gets epoch {event.epoch} after {each.highest}")
        each.epoch = event.epoch
        each.highest = max(event.epoch, each.highest)

    def _check_revocation(self, event: Revoke) -> Iterator[ShardingBreach]:
        each = self._object_of(event.obj)
        yield from self._check_epoch(event, each)
        if each.holder is not None:
            each.revoked_at = event.t
        each.holder = None

    def _check_start(self, event: Start) -> Iterator[ShardingBreach]:
        each, who = self._object_of(event.obj), event.incarnation
        if others := sorted(str(other) for other in each.active if other != who):
            yield ShardingBreach("S1", event.t, f"{who} starts {event.obj} while {', '.join(others)} works on it")
        if each.holder != who or each.epoch != event.epoch:
            yield ShardingBreach(
                "S11", event.t, f"{who} starts {event.obj} under epoch {event.epoch}; {_describe_holder(each)}"
            )
        each.active.add(who)

    def _record_ack(self, event: Ack) -> None:
        each = self._object_of(event.obj)
        if each.previous == event.incarnation:
            each.given_up = True
        if each.holder == event.incarnation:
            each.holder = None
            each.lost_at = None

    def _check_write(self, event: Write) -> Iterator[ShardingBreach]:
        each = self._object_of(event.obj)
        if event.accepted and (each.holder != event.incarnation or each.epoch != event.epoch):
            said = (
                f"a write of {event.incarnation} under epoch {event.epoch} on {event.obj} is accepted; "
                f"{_describe_holder(each)}"
            )
            yield ShardingBreach("S2", event.t, said)

    def _check_archive(
        self, event: ArchivePut | ArchiveVerified | FinalizerRemoved | Deleted
    ) -> Iterator[ShardingBreach]:
        match event:
            case ArchivePut(uid=uid, rv=rv, key=key):
                if key is not None and (known := self._keys.setdefault((uid, rv), key)) != key:
                    yield ShardingBreach("S8", event.t, f"version {rv} of {uid} is archived as {known} and as {key}")
            case ArchiveVerified():
                self._verified.add((event.uid, event.rv))
            case FinalizerRemoved():
                if (event.uid, event.rv) not in self._verified:
                    said = f"the finalizer is removed from version {event.rv} of {event.uid}, which was never read back"
                    yield ShardingBreach("S7", event.t, said)
                self._finalizer_removed.add(event.uid)
            case Deleted():
                if event.uid not in self._finalizer_removed:
                    yield ShardingBreach(
                        "S9", event.t, f"{event.uid} is deleted, but no supervisor removed its finalizer"
                    )
                for name in [name for name, each in self._objects.items() if each.uid == event.uid]:
                    del self._objects[name]

    def _check_unassigned_wait(self, name: str, each: _Object, t: float) -> Iterator[ShardingBreach]:
        """Check L1 when the wait ends: by an assignment, when no executor is eligible, or at the end of the log."""
        limit_s = self._limits.first_assignment_s
        waits = each.previous is None and not each.completed and each.created is not None
        if limit_s is None or self._eligible_since is None or not waits:
            return
        assert each.created is not None
        since = max(each.created, self._eligible_since)
        if t - since > limit_s:
            yield ShardingBreach(
                "L1", t, f"{name} waits for its first assignment since {since:g} s, longer than {limit_s:g} s"
            )

    def _check_orphaned_wait(self, name: str, each: _Object, t: float) -> Iterator[ShardingBreach]:
        """Check L2 when the wait ends: by an assignment, by the completion, or at the end of the log."""
        limit_s = self._limits.reassignment_s
        if limit_s is None or each.lost_at is None or each.completed or t - each.lost_at <= limit_s:
            return
        yield ShardingBreach(
            "L2", t, f"{name} has no living holder since {each.lost_at:g} s, longer than {limit_s:g} s"
        )


def _describe_holder(each: _Object) -> str:
    if each.holder is None:
        return f"the object has no holder, and its epoch is {each.epoch}"
    return f"{each.holder} holds the object under epoch {each.epoch}"
