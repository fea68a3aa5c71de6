"""A supervisor of a history of decisions. It uses the shipped `Membership`, `decide` and `advanced`.

The loops around them are simulated: the election, watching, listing, writing, retrying. A careless supervisor goes on
after its term as if it still led. Only the policy stops its stale writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final

from situate.archive.records.record import record_of
from situate.objects.kinds.leases import Lease
from situate.sharding.assignment.archive_steps import (
    Deleted,
    Finished,
    Gone,
    Moment,
    Outcome,
    Progress,
    Read,
    Released,
    Retry,
    Step,
    Superseded,
    Unavailable,
    advanced,
    released_write,
)
from situate.sharding.assignment.archive_steps import Refused as NotTaken
from situate.sharding.assignment.decide import decide
from situate.sharding.assignment.drain import under_way
from situate.sharding.executor.next_step import Me
from situate.sharding.fencing.admit import Role, Writer
from situate.sharding.leases.membership import ExecutorWatch, LeaseTimes, Membership
from situate.sharding.model.actions import Archive, Delete, Patching, TellCompleted, Write, write_of
from situate.sharding.model.decision_inputs import NEW, Memory, MoveLimit, Situation
from situate.sharding.model.errors import NoHealthyExecutors
from situate.sharding.model.executors import Members, Suspect
from situate.sharding.model.object_view import ObjectView
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.sim.timeline import Due
from situate.testing.sharding.pods import NAMESPACE, POOL_NAME, SELECTOR, Host, lease_of, lost_node
from situate.testing.sharding.processes import Process
from situate.testing.sharding.store import PATHS, Election, Refused, Stored
from situate.testing.sharding.town import Town

LEASE_S: Final = 15.0
RENEW_DEADLINE_S: Final = 10.0
RETRY_S: Final = 2.0
CARELESS_S: Final = 40.0
"""Seconds after a renewal in which a careless supervisor believes that it leads."""
_WRITER: Final = Writer(Role.SUPERVISOR)
Order = Patching | Delete | Archive


@dataclass(slots=True)
class Term:
    """State that is lost at the end of a term."""

    number: int
    limit: MoveLimit
    memories: dict[str, Memory] = field(default_factory=dict)
    wakes: dict[str, Due] = field(default_factory=dict)
    acting: set[str] = field(default_factory=set)
    """Names of objects with a write or a read in progress."""
    failures: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, Progress] = field(default_factory=dict)
    """Archivings in progress, by name."""


class Supervisor(Process):
    """One process. `begin` starts it."""

    def __init__(self, town: Town, name: str, speed: float, config: SupervisorConfig, *, careless: bool) -> None:
        super().__init__(town, name, speed)
        self.town = town
        self.config = config
        self.wall_s = 0.0
        """Error of its wall clock in seconds."""
        self.term: Term | None = None
        self.cache: dict[str, ObjectView] = {}
        self._careless = careless
        self._membership = Membership(ExecutorWatch(SELECTOR, NAMESPACE), LeaseTimes(), POOL_NAME)
        self._members: Members | None = None
        self._present: object = None
        self._since: dict[str, float] = {}
        """By name: when the cached version was first seen."""
        self._gone_at: dict[str, float] = {}
        self._confirmed: dict[str, float] = {}
        self._asking: set[str] = set()
        """UIDs whose Lease is being read."""
        self._election = Election()
        self._election_seen = 0.0
        self._renewed_at = -1e9
        self._listing = False

    def begin(self) -> None:
        self._elect()
        self._tick()
        self.relist()

    def leads(self) -> bool:
        """Return whether it leads by its own account. End the term if it does not."""
        patience_s = CARELESS_S if self._careless else RENEW_DEADLINE_S
        if self.term is not None and self.now() >= self._renewed_at + patience_s:
            for due in self.term.wakes.values():
                due.cancel()
            self.term = None
        return self.term is not None

    def saw(self, name: str, stored: Stored | None) -> None:
        """Handle a watch event of an object."""
        if stored is None:
            self.cache.pop(name, None)
            self._since.pop(name, None)
            return
        if self.cache.get(name) is not stored.view:
            self.cache[name] = stored.view
            self._since[name] = self.now()
        self._look(name)

    def saw_lease(self, me: Me, renewed: float, *, held: bool) -> None:
        """Handle a watch event of an executor's Lease."""
        self._see_lease(lease_of(me, renewed, 0.0, held=held))

    def saw_host(self, host: Host) -> None:
        """Handle a watch event of a pod or its node."""
        if host.there:
            self._membership.saw_pod(host.pod())
        else:
            self._membership.pod_gone(NAMESPACE, host.name, host.uid)
        self._members = None
        if self.leads():
            self._look_at_members()

    def node_lost(self, host: Host) -> None:
        """Handle the taint for out of service on a host's node."""
        self._membership.saw_node(lost_node(host))
        self._members = None

    def relist(self) -> None:
        """List everything, as after a cut watch or a 410, and at intervals."""
        if not self._listing:
            self._listing = True
            self.ask("read everything", self._everything, self._relisted)

    def _see_lease(self, lease: Lease) -> None:
        self._membership.saw_lease(lease, self.now())
        known = self._members
        if known is None or not lease.spec.holder_identity or lease.spec.holder_identity not in known.living:
            self._members = None  # otherwise members change when a Lease expires, later than the cached time

    def _tick(self) -> None:
        self.after(1.0, self._tick)
        if self.leads():
            self._look_at_members()

    def _everything(self) -> tuple[dict[str, Stored], list[tuple[Me, float, bool]], list[Host]]:
        leases = [(each.me, *self.town.lease_of(each)) for each in self.town.executors if each.tenure.number]
        return dict(self.town.store.objects), leases, [*self.town.hosts.values()]

    def _relisted(
        self, answer: tuple[dict[str, Stored], list[tuple[Me, float, bool]], list[Host]] | Refused | None
    ) -> None:
        self._listing = False
        if not isinstance(answer, tuple):
            self.after(RETRY_S, self.relist)
            return
        objects, leases, hosts = answer
        for name in [*self.cache]:
            if name not in objects:
                self.saw(name, None)
        for me, renewed, held in leases:
            self._see_lease(lease_of(me, renewed, 0.0, held=held))
        for host in hosts:
            self.saw_host(host)
        self._membership.synced(self.now())
        for name, stored in objects.items():
            self.saw(name, stored)
        self.after(self.config.requeue_delay, self.relist)

    def _elect(self) -> None:
        """Renew the Lease, or take it if no supervisor renewed it for long enough."""
        self.after(RETRY_S, self._elect)
        seen, sent_at, store = self._election, self.now(), self.town.store
        ours = seen.holder == self.name
        free = not seen.holder or sent_at - self._election_seen >= LEASE_S
        if ours or (self._election_seen and free):
            claim = partial(store.claim, self.name, seen.version)
            self.ask("claim", claim, partial(self._claimed, sent_at), timeout_s=RETRY_S)
        else:
            self.ask("read election", lambda: store.election, self._saw_election, timeout_s=RETRY_S)

    def _saw_election(self, answer: Election | Refused | None) -> None:
        if isinstance(answer, Election) and (answer != self._election or not self._election_seen):
            self._election, self._election_seen = answer, self.now()

    def _claimed(self, sent_at: float, answer: Election | Refused | None) -> None:
        if not isinstance(answer, Election):
            # the next read shows whether it was carried out
            self.ask("read election", lambda: self.town.store.election, self._saw_election, timeout_s=RETRY_S)
            return
        self._saw_election(answer)
        self._renewed_at = sent_at
        if self.term is not None and self.term.number != answer.transitions:
            self._renewed_at = -1e9
            self.leads()
            self._renewed_at = sent_at
        if self.term is None:
            self.town.happened["term"] += 1
            self.term = Term(answer.transitions, MoveLimit(self.config.max_forced_moves_per_s))
            for name in sorted(self.cache):
                self._look(name)

    def members(self) -> Members:
        """Return the members at this moment."""
        now = self.now()
        if self._members is None or now >= (self._members.next_expiry or now):
            found = self._members = self._membership.members(now, {})
            for suspect in found.suspects:
                self._read_lease(suspect.uid, suspect)
            for uid in found.removed:
                self._gone_at.setdefault(uid, now)
            for uid in found.living:
                self._gone_at.pop(uid, None)
        return self._members

    def _look_at_members(self) -> None:
        found = self.members()
        present = {(each.uid, each.status) for each in found.living.values()}, frozenset(found.removed)
        if present != self._present:
            self._present = present
            for name in sorted(self.cache):
                self._look(name)

    def _read_lease(self, uid: str, suspect: Suspect | None) -> None:
        if uid in self._asking:
            return
        self._asking.add(uid)
        asked_at = self.now()
        executor = next(each for each in self.town.executors if each.me.uid == uid)

        def answered(answer: tuple[float, bool] | Refused | None) -> None:
            self._asking.discard(uid)
            if not isinstance(answer, tuple):
                return
            renewed, held = answer
            lease = lease_of(executor.me, renewed, 0.0, held=held)
            if suspect is not None:
                self._membership.checked(suspect, lease, asked_at, self.now())
                self._members = None
            else:
                self._see_lease(lease)
                self._confirmed[uid] = asked_at
            self._look_at_members()
            for name, view in sorted(self.cache.items()):
                if view.executor_uid == uid:
                    self._look(name)

        self.ask("read lease", partial(self.town.lease_of, executor), answered)

    def _look(self, name: str) -> None:
        """Decide on an object and perform the first action."""
        view = self.cache.get(name)
        if not self.leads() or view is None or self.term is None or name in self.term.acting:
            return
        term, found, since = self.term, self.members(), self._since[name]
        uid = view.executor_uid or (view.revoked.executor_uid if view.revoked is not None else "")
        if uid in found.removed and self._gone_at[uid] < since and self._confirmed.get(uid, -1.0) < since:
            self._read_lease(uid, None)  # it may have come back before it got this object
            return
        if (due := term.wakes.pop(name, None)) is not None:
            due.cancel()
        decision = decide(view, term.memories.get(view.uid, NEW), self._situation(term, found))
        term.memories[view.uid], term.limit = decision.memory, decision.limit
        orders = [each for each in decision.actions if not isinstance(each, TellCompleted)]
        if orders:
            self._act(term, name, view, orders[0])
        elif decision.wake_at is not None:
            term.wakes[name] = self.after(decision.wake_at - self.now(), partial(self._look, name))

    def _situation(self, term: Term, found: Members) -> Situation:
        def choose(_view: ObjectView, among: frozenset[str] | None, /) -> str:
            ids = sorted(each for each in found.eligible if among is None or each in among)
            if not ids:
                raise NoHealthyExecutors
            return self.world.rng.choice(ids)

        wall = self.town.wall() + timedelta(seconds=self.wall_s)
        drains = under_way(self.cache.values())
        return Situation(
            self.now(), wall, found, choose, term.number, self.config, PATHS, True, drains=drains, limit=term.limit
        )

    def _act(self, term: Term, name: str, view: ObjectView, order: Order) -> None:
        match order:
            case Archive(delete=delete):
                self._begin_archiving(term, name, view, delete=delete)
            case Delete(uid=uid):
                term.acting.add(name)
                self.ask("delete", partial(self._deleted, name, uid, ""), partial(self._acted, term, name))
            case _:
                term.acting.add(name)
                land = partial(self._land, name, write_of(order, view, PATHS))
                kind = type(order).__name__.lower()
                self.ask(kind, land, partial(self._acted, term, name))

    def _acted(self, term: Term, name: str, answer: Stored | Refused | None) -> None:
        if self.term is not term:
            return
        if isinstance(answer, Stored):
            term.acting.discard(name)
            term.failures.pop(name, None)
            self.saw(name, answer)
            return
        if isinstance(answer, Refused):
            self.town.happened[f"write of a supervisor refused: {answer.name}"] += 1
        failures = term.failures[name] = term.failures.get(name, 0) + 1
        delay_s = 0.01 if answer is Refused.CONFLICT and failures < 3 else min(8.0, 2.0 ** (failures - 1))
        self.after(delay_s, partial(self._read_again, term, name))

    def _read_again(self, term: Term, name: str) -> None:
        self.ask("read object", partial(self.town.store.get, name), partial(self._again, term, name))

    def _again(self, term: Term, name: str, answer: Stored | Refused | None) -> None:
        if self.term is not term:
            return
        if isinstance(answer, Stored) or answer is Refused.GONE:
            term.acting.discard(name)
            self.saw(name, answer if isinstance(answer, Stored) else None)
        else:
            self.after(2.0, partial(self._read_again, term, name))

    def _land(self, name: str, write: Write) -> Stored | Refused:
        """Carry out a write on the server."""
        before = self.town.store.get(name)
        answer = self.town.store.patch(name, write.operations, _WRITER, write.subresource)
        if isinstance(before, Stored) and isinstance(answer, Stored):
            self.town.ordered(name, before.view, answer.view)
        return answer

    def _deleted(self, name: str, uid: str, version: str) -> Stored | Refused:
        """Carry out a deletion on the server."""
        return self.town.deleted(name, uid, version)

    def _begin_archiving(self, term: Term, name: str, view: ObjectView, *, delete: bool) -> None:
        present = term.jobs.get(name)
        if present is None or present.uid != view.uid:
            term.jobs[name] = Progress(view.uid, delete)
            self._archive(term, name, term.jobs[name])

    def _archive(self, term: Term, name: str, job: Progress) -> None:
        """Perform one step of archiving. Do nothing if the term is over or another object has the name."""
        if not self.leads() or self.term is not term or term.jobs.get(name) is not job:
            return
        store, view = self.town.store, job.view
        done = partial(self._archived, term, name, job)
        if job.step is Step.READ:
            self.ask("read object", partial(store.get, name), lambda answer: done(_read(answer)))
            return
        assert view is not None, "a step after the reading has a version"

        def kept(answer: Outcome | Refused | None) -> None:
            done(_of_archive(answer))

        match job.step:
            case Step.PUT:
                record = record_of(
                    view.content,
                    resource="reports",
                    completed_at=view.completed_at,
                    successful=view.successful,
                    reason=view.reason,
                    archived_at=self.town.wall(),
                    term=term.number,
                )
                self.ask("archive", partial(self.town.kept, record), kept)
            case Step.VERIFY:
                self.ask("read archive", partial(self.town.verified, view), kept)
            case Step.RELEASE:
                write = released_write(view, self.config, term.number, archived=bool(job.digest))
                land = partial(self._land, name, write)
                self.ask("finalizer", land, lambda answer: done(_released(answer)))
            case Step.DELETE:
                land = partial(self._deleted, name, view.uid, view.resource_version)
                self.ask("delete", land, lambda answer: done(_gone(answer)))

    def _archived(self, term: Term, name: str, job: Progress, outcome: Outcome) -> None:
        if self.term is not term or term.jobs.get(name) is not job:
            return
        moment = Moment(self.now(), self.town.wall() + timedelta(seconds=self.wall_s), self.config)
        match advanced(job, outcome, moment):
            case Progress() as after:
                term.jobs[name] = after
                wait_s = 1.0 if isinstance(outcome, Superseded) else 0.0
                self.after(wait_s, partial(self._archive, term, name, after))
            case Retry(progress=after):
                term.jobs[name] = after
                self.after(min(8.0, 2.0 ** (after.failures - 1)), partial(self._archive, term, name, after))
            case Finished():
                del term.jobs[name]
                self.after(1.0, partial(self._look, name))


def _read(answer: Stored | Refused | None) -> Outcome:
    return Read(answer.view) if isinstance(answer, Stored) else _refused(answer)


def _released(answer: Stored | Refused | None) -> Outcome:
    return Released(answer.view) if isinstance(answer, Stored) else _refused(answer)


def _gone(answer: Stored | Refused | None) -> Outcome:
    return Deleted() if isinstance(answer, Stored) else _refused(answer)


def _refused(answer: Refused | None) -> Outcome:
    """Map a refusal to an outcome, as the shell does."""
    match answer:
        case Refused.GONE:
            return Gone()
        case Refused.CONFLICT:
            return Superseded()
        case Refused.INVALID | Refused.FORBIDDEN:
            return NotTaken(answer.name)
        case _:
            return Unavailable("no answer", archive=False)


def _of_archive(answer: Outcome | Refused | None) -> Outcome:
    return Unavailable("no answer", archive=True) if answer is None or isinstance(answer, Refused) else answer
