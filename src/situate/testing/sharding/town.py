"""State shared by all processes of a history of decisions: the server, the archive, and the log of events.

An all-seeing observer writes the log, and `situate.testing.sharding.invariants` checks it.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from situate.archive.records.record import Record
from situate.sharding.assignment.archive_steps import Outcome, ReadBack
from situate.sharding.executor.next_step import Me
from situate.sharding.model.names import FINALIZER
from situate.sharding.model.object_view import ObjectView
from situate.testing.sharding import events
from situate.testing.sharding.archives import Archive
from situate.testing.sharding.invariants import Breach, Limits, breaches
from situate.testing.sharding.pods import Host
from situate.testing.sharding.processes import Surroundings
from situate.testing.sharding.store import Refused, Store, Stored

if TYPE_CHECKING:
    from situate.testing.sharding.executors import Executor
    from situate.testing.sharding.supervisors import Supervisor

BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC)
LEASE_S: Final = 15.0
FASTEST: Final = 1.05
"""Maximum ratio of the speeds of two clocks in a history."""
LEAST_LEASE_S: Final = LEASE_S / FASTEST
"""True seconds without a change after which the fastest observer may judge a Lease expired."""
_UNJUDGED: Final = frozenset({"S4", "L1", "L2"})
"""Not checked: a supervisor's knowledge is as late as the weather makes it. These have other tests and histories."""


class Town(Surroundings):
    """The state of one history."""

    def __init__(self, seed: int, *, policy: bool) -> None:
        super().__init__(seed)
        self.store = Store(self._changed, policy=policy)
        self.archive = Archive(self.happened)
        self.executors: list[Executor] = []
        """All incarnations so far."""
        self.supervisors: list[Supervisor] = []
        self.hosts: dict[str, Host] = {}
        """By pod name: the present pod."""
        self.writes = 0
        self.gone: dict[str, ObjectView] = {}
        """By UID: the last version of each removed object."""
        self.forsaken: set[str] = set()
        """UIDs whose finalizer a user removed. Their archiving is not checked."""
        self._log: list[events.Event | None] = []
        self._renewed_at: dict[str, float] = {}
        self._lost: set[str] = set()
        self._given_back: set[str] = set()
        self._counted = 0
        self._by_id: defaultdict[str, list[Executor]] = defaultdict(list)

    def join(self, executor: Executor) -> None:
        self.executors.append(executor)
        self._by_id[executor.me.id].append(executor)

    def wall(self) -> datetime:
        return BEGAN + timedelta(seconds=self.now)

    def counted(self) -> int:
        """Return a number that no status has had."""
        self._counted += 1
        return self._counted

    def note(self, event: events.Event) -> None:
        self._log.append(event)

    def reserve(self) -> int:
        """Reserve a place in the log for an event that may turn out to have happened here."""
        self._log.append(None)
        return len(self._log) - 1

    def put(self, place: int, event: events.Event) -> None:
        self._log[place] = event

    @property
    def log(self) -> list[events.Event]:
        return [event for event in self._log if event is not None]

    def breaches(self) -> list[Breach]:
        """Return the breaches in the log."""
        found = breaches(self.log, Limits(lease_duration_s=LEAST_LEASE_S))
        return [each for each in found if each.invariant not in _UNJUDGED]

    def living(self) -> list[Executor]:
        return [each for each in self.executors if each.alive]

    def tell_of(self, host: Host) -> None:
        """Notify supervisors, which watch pods, of a changed pod."""
        for supervisor in self.supervisors:
            supervisor.tell(partial(supervisor.saw_host, host))

    def renewed(self, executor: Executor) -> bool:
        """Handle a renewal that reached the server."""
        me = executor.me
        self._judge(me.uid)
        self._renewed_at[me.uid] = self.now
        if me.uid in self._lost and executor.alive:  # otherwise it had left before the end
            self._lost.discard(me.uid)
            self.note(events.Eligible(self.now, me.id, me.uid))
        self._tell_of_lease(executor, held=True)
        return True

    def given_back(self, executor: Executor) -> bool:
        """Handle the release of a Lease."""
        self._lose(executor.me)
        self._given_back.add(executor.me.uid)
        self.happened["lease released"] += 1
        self._tell_of_lease(executor, held=False)
        return True

    def lease_of(self, executor: Executor) -> tuple[float, bool]:
        """Return when a Lease was last renewed, and whether it is held."""
        return self._renewed_at.get(executor.me.uid, -1.0), executor.me.uid not in self._given_back

    def wrote(self, me: Me, name: str, epoch: int, answer: Stored | Refused) -> None:
        """Log an executor's write that reached the server."""
        accepted = isinstance(answer, Stored)
        self.note(events.Write(self.now, me.id, me.uid, name, epoch, accepted))
        self.writes += 1
        if not isinstance(answer, Stored):
            self.happened[f"write of an executor refused: {answer.name}"] += 1
            return
        if answer.view.holder is None:
            self.happened["ack"] += 1
            self.note(events.Ack(self.now, me.id, me.uid, name))
        elif answer.view.completed:
            self.happened["completed"] += 1
            self.note(events.Complete(self.now, name))

    def ordered(self, name: str, before: ObjectView, after: ObjectView) -> None:
        """Log a supervisor's write that the server carried out."""
        self.writes += 1
        for uid in (before.executor_uid, before.revoked.executor_uid if before.revoked is not None else ""):
            self._judge(uid)
        if after.epoch != before.epoch and after.holder is not None:
            self.happened[f"assigned: {after.why}"] += 1
            holder = after.holder
            self.note(events.Assign(self.now, name, holder.executor, holder.uid, after.epoch, after.term))
        elif after.epoch != before.epoch:
            self.happened["revoked"] += 1
            self.note(events.Revoke(self.now, name, after.epoch))
        elif after.drain is not None and before.drain is None:
            self.happened["asked to drain"] += 1
        if after.completed and not before.completed:
            self.happened[f"failed: {after.reason}"] += 1
            self.note(events.Complete(self.now, name))
        if (
            before.has_finalizer(FINALIZER) and not after.has_finalizer(FINALIZER)
        ) or after.archived != before.archived:
            self.happened["finalizer removed"] += 1
            self.note(events.FinalizerRemoved(self.now, before.uid, before.resource_version))

    def deleted(self, name: str, uid: str, version: str) -> Stored | Refused:
        """Carry out a supervisor's deletion."""
        answer = self.store.delete(name, uid, version)
        if isinstance(answer, Stored):
            self.writes += 1
            self.happened["deleted"] += 1
            self.note(events.Deleted(self.now, answer.view.uid))
        return answer

    def kept(self, record: Record) -> Outcome:
        """Store a supervisor's record in the archive."""
        outcome = self.archive.put(record)
        subject, present = record.subject, self.archive.record(record.subject.uid)
        if present is not None and present.subject.resource_version == subject.resource_version:
            self.note(events.ArchivePut(self.now, subject.uid, subject.resource_version, str(subject.key)))
        return outcome

    def verified(self, view: ObjectView) -> Outcome:
        """Read a record back from the archive."""
        outcome = self.archive.get(view)
        record = self.archive.record(view.uid)
        if isinstance(outcome, ReadBack) and record is not None and outcome.digest == record.digest:
            self.note(events.ArchiveVerified(self.now, view.uid, outcome.resource_version))
        return outcome

    def _judge(self, uid: str) -> None:
        """Log the loss of a Lease that any observer may judge expired by now."""
        last = self._renewed_at.get(uid)
        if last is not None and self.now - last >= LEAST_LEASE_S:
            self._lose(next(each.me for each in self.executors if each.me.uid == uid))

    def _lose(self, me: Me) -> None:
        if me.uid not in self._lost:
            self._lost.add(me.uid)
            self.note(events.LeaseLost(self.now, me.id, me.uid))

    def _tell_of_lease(self, executor: Executor, *, held: bool) -> None:
        renewed = self.now
        for supervisor in self.supervisors:
            supervisor.tell(partial(supervisor.saw_lease, executor.me, renewed, held=held))

    def _changed(self, name: str, before: Stored | None, after: Stored | None) -> None:
        if before is None and after is not None:
            self.note(events.Create(self.now, name, after.view.uid))
        if after is None and before is not None:
            self.gone[before.view.uid] = before.view
        for supervisor in self.supervisors:
            supervisor.tell(partial(supervisor.saw, name, after))
        ids = {stored.view.executor for stored in (before, after) if stored is not None} - {""}
        for id_ in sorted(ids):
            for executor in self._by_id[id_]:
                if executor.alive:
                    executor.tell(partial(executor.saw, name, after))
