"""Plays a failure sequence of archive.json: a supervisor's own steps, a real archive, and outcomes put between them.

The supervisor makes the calls that it would make; a phrase waits until it makes the call that it is about, and says
how that ends. What comes in between ends well. After the last phrase the supervisor goes on until nothing is left to
do, unless that phrase is a failure: then the state is what the failure leaves until the next attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

from situate.archive.protocol import (
    ArchiveConflict,
    ArchiveCorrupt,
    ArchiveRefused,
    ArchiveUnavailable,
    NotArchived,
)
from situate.archive.records.record import ByName, ByUid, GroupKind, Record, record_of
from situate.archive.records.restored_object import restored
from situate.cluster.patch.patches import json_patch
from situate.sharding.assignment import archive_steps
from situate.sharding.assignment.archive_steps import (
    ArchiveProgress,
    ArchiveStep,
    Deleted,
    Finished,
    Gone,
    OutcomeContext,
    Read,
    ReadBack,
    RecordCorrupt,
    RecordMissing,
    Refused,
    Released,
    Retry,
    Stored,
    Superseded,
    Unavailable,
    finalizer_removal_write,
    marks_of,
    next_progress,
)
from situate.sharding.assignment.decide import decide
from situate.sharding.fencing.admit import Role, Writer, WriteRequest, admit
from situate.sharding.model.actions import Archive
from situate.sharding.model.decision_inputs import INITIAL_MEMORY
from situate.sharding.model.names import FINALIZER
from situate.sharding.model.object_view import ObjectView, view_of
from situate.sharding.model.supervisor_config import SupervisorConfig
from tests.conformance.ksched_archive_backends import Backend
from tests.conformance.ksched_archive_steps import (
    Archived,
    Cached,
    Call,
    Compare,
    Crash,
    Created,
    Edited,
    Event,
    Foreign,
    Marker,
    NewSupervisor,
    Outage,
    RecordDeleted,
    RecordEdited,
    Replaced,
    Restore,
    Result,
    Resumed,
    Unheld,
    UserDeletes,
    events_of,
)
from tests.conformance.ksched_world import ADAPTER, FENCE, Supervisor, World
from tests.sharding import builders

NOW: Final = 1_000_000.0
NAME: Final = "report"
_FOREIGN: Final = "example.com/foreign"
KIND: Final = GroupKind("batch.example.com", "Report")
FIRST: Final = "U1"
_CONFIG: Final = SupervisorConfig(archive_ttl=60.0)
MARKS: Final = marks_of(_CONFIG)
_CALLS: Final = 50
"""More than any sequence needs until it settles."""


class NeverCalledError(AssertionError):
    """A phrase is about a call that the supervisor does not make."""


@dataclass
class _Leader:
    """One supervisor process."""

    term: int
    progress: ArchiveProgress | None = None
    """None while it archives nothing."""
    last: ArchiveProgress | Retry | Finished | None = None


@dataclass
class Play:
    """The state of one sequence on one backend."""

    backend: Backend
    stored_when_unknown: bool
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the API server has, by UID; at most one has the name."""
    cache: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What supervisors see before they read, where that is older."""
    version: int = 10
    now: float = NOW
    """By every clock."""
    leaders: dict[str, _Leader] = field(default_factory=lambda: {"s1": _Leader(1)})
    leading: str = "s1"
    down: bool = False
    rejected: int = 0
    first: str = FIRST
    """The UID that the sequence is about."""
    away_s: float = 0.0
    """For how long the archive has failed."""
    released: list[str] = field(default_factory=list)
    """The versions from which the finalizer went."""
    alerts: int = 0
    conditions: int = 0
    record: Record | None = None
    """That an object was restored from."""

    async def run(self, phrases: list[str]) -> None:
        events = [event for phrase in phrases for event in events_of(phrase)]
        calls = [event for event in events if isinstance(event, Call | Archived)]
        self.first = (calls[0].uid if calls else "") or FIRST
        named = [event.version for event in events if isinstance(event, Call | Edited) and event.version is not None]
        if named and not any(isinstance(event, Cached) for event in events):
            changed = next(event for event in events if isinstance(event, Call | Edited) and event.version is not None)
            self.version = (
                min(named) - 1 - isinstance(changed, Edited)
            )  # the object is as old as the first that is named
        self.create(self.first)
        for event, following in zip(events, [*events[1:], Marker()], strict=True):
            spoken_for = isinstance(following, Call) and following.by
            if not (isinstance(event, Resumed) and spoken_for == event.name):
                await self._happens(event)
        ends = [event for event in events if not (isinstance(event, Marker) and event.waiting)]
        if not ends or not _is_failure(ends[-1]):
            await self._until(None, Result.OK)

    @property
    def last(self) -> ArchiveProgress | Retry | Finished | None:
        """How the leader's last call has left its work; None if it has made none."""
        return self.leaders[self.leading].last

    async def _happens(self, event: Event) -> None:
        match event:
            case Call():
                current = self.objects.get(self.first)
                if event.step is ArchiveStep.PUT and event.version is not None and current is not None:
                    self._grown(self.first, event.version)
                for _ in range(event.times):
                    await self._call(event)
                    self.now += event.over_s / event.times
                self.away_s += event.over_s
            case Crash():
                self.new_leader(self.leading)
            case NewSupervisor(name):
                self.new_leader(name or f"s{len(self.leaders) + 1}")
                await self.backend.reopen()
            case Resumed(name):
                if (progress := self.leaders[name].progress) is not None:  # one call may be under way, and no more
                    await self._until(progress.step, Result.OK, name)
            case Cached(cached, stored):
                uid, content = next(iter(self.objects.items()))
                self.version = cached
                self.objects[uid] = _with(content, resourceVersion=str(cached))
                self.cache[uid] = self.objects[uid]
                if stored is not None:
                    self.version = stored
                    self.objects[uid] = {**_with(content, resourceVersion=str(stored)), "newer": True}
            case Archived(uid):
                if uid not in self.objects:
                    self.create(uid)
                await self._until(None, Result.OK)
                self.now += 1
            case Replaced(uid, successor):
                self.objects.pop(uid, None)
                self.create(successor, completed=False)
            case Created(uid):
                self.create(uid, completed=False)
            case Unheld():
                own = self.objects[self._uid()]["metadata"].get("finalizers", ())
                self._changed(self._uid(), finalizers=[each for each in own if each != FINALIZER])
            case RecordEdited():
                key = ByUid(KIND, self.first, (builders.NAMESPACE, NAME))
                await self.backend.edit(await self.backend.archiver.get(key))
            case RecordDeleted():
                await self.backend.archiver.delete(ByUid(KIND, self.first))
            case Edited(version):
                if version is None:
                    self._changed(self._uid(), labels={"edited": str(self.version)})
                else:
                    self._grown(self._uid(), version)
            case Foreign(present):
                self._foreign(self._uid(), present)
            case UserDeletes():
                self._changed(self._uid(), deletionTimestamp="2026-01-01T00:00:00Z")
                if not self.objects[self._uid()]["metadata"].get("finalizers"):
                    del self.objects[self._uid()]
            case Outage(down):
                self.down = down
            case Restore():
                await self._restore()
            case Compare() | Marker():
                pass  # what is compared stands in `final`
            case _ as never:
                assert_never(never)

    def create(self, uid: str, *, completed: bool = True) -> None:
        self.version += 1
        content = (
            builders.report(
                uid, executor="e-0", executor_uid="uid-e-0", epoch=3, completed=NOW - 100, successful=True, ours=True
            )
            if completed
            else builders.report(uid)
        )
        content = {**content, "spec": {**content["spec"], "state": "written"}}
        self.objects[uid] = _with(
            content, name=NAME, resourceVersion=str(self.version), generation=2, managedFields=[{"manager": "m"}]
        )

    def _uid(self) -> str:
        return next(iter(self.objects))

    def _changed(self, uid: str, **metadata: Any) -> None:
        self.version += 1
        self.objects[uid] = _with(self.objects[uid], resourceVersion=str(self.version), **metadata)

    def _grown(self, uid: str, version: int) -> None:
        """Somebody changes the object until it has this resourceVersion."""
        if int(self.objects[uid]["metadata"]["resourceVersion"]) < version:
            self.version = version - 1
            self._changed(uid, labels={"edited": str(version)})

    def _foreign(self, uid: str, present: bool) -> None:
        own = [each for each in self.objects[uid]["metadata"].get("finalizers", ()) if each != _FOREIGN]
        self._changed(uid, finalizers=[*own, _FOREIGN] if present else own)
        if not present and not own and "deletionTimestamp" in self.objects[uid]["metadata"]:
            del self.objects[uid]

    def new_leader(self, name: str) -> None:
        term = max(leader.term for leader in self.leaders.values()) + 1
        self.leaders[name] = _Leader(term)
        self.leading = name

    async def _call(self, call: Call) -> None:
        """One that the supervisor makes by itself; a deletion of a given UID comes however late."""
        leader = call.by or self.leading
        if leader not in self.leaders:
            self.new_leader(leader)
        if call.step is ArchiveStep.DELETE and call.uid and self.begun(leader) is None:
            self._delete(call.uid, call.result)
            return
        await self._until(call.step, call.result, leader)

    async def _until(self, step: ArchiveStep | None, result: Result, name: str = "") -> None:
        """Goes on until this step has ended so; None: until nothing is left to do."""
        name = name or self.leading
        for _ in range(_CALLS):
            progress = self.begun(name)
            if progress is None:
                if step is not None:
                    raise NeverCalledError(f"the supervisor never calls {step.value}: nothing is left to do")
                return
            this = progress.step is step
            if this and result is Result.TORN:
                assert progress.view is not None
                await self.backend.torn(self._record(progress.view, name))
                self.new_leader(name)
                return
            await self.step(result if this else Result.OK, name)
            if this:
                return
        raise NeverCalledError(f"no end after {_CALLS} calls")

    async def step(self, result: Result, name: str) -> None:
        """The one call that the supervisor makes next."""
        progress = self.begun(name)
        assert progress is not None, "there is one"
        self._advance(name, progress, await self._performed(progress, result, name))

    def begun(self, name: str) -> ArchiveProgress | None:
        """What the supervisor is doing, or begins to do, about the object of the name; None: nothing now."""
        leader = self.leaders[name]
        if leader.progress is None and self.objects:
            uid = self._uid()
            view = view_of(self.cache.pop(uid, self.objects[uid]), ADAPTER)
            situation = Supervisor(World(), _CONFIG, leader.term, has_archiver=True)
            members = situation.observe(self.now)
            decision = decide(view, INITIAL_MEMORY, situation.situation(self.now, members))
            orders = [action for action in decision.actions if isinstance(action, Archive)]
            leader.progress = ArchiveProgress(uid, orders[0].delete) if orders else None
        return leader.progress

    def _advance(self, name: str, progress: ArchiveProgress, outcome: archive_steps.StepOutcome) -> None:
        leader = self.leaders[name]
        after = next_progress(progress, outcome, OutcomeContext(self.now, builders.wall(self.now), _CONFIG))
        leader.last = after
        match after:
            case Retry():
                self.conditions += after.condition
                self.alerts += after.alert
                leader.progress = after.progress
            case Finished():
                leader.progress = None
            case ArchiveProgress():
                leader.progress = after

    async def _performed(self, progress: ArchiveProgress, result: Result, name: str) -> archive_steps.StepOutcome:
        match progress.step:
            case ArchiveStep.READ:
                present = self.objects.get(progress.uid)
                if present is None:
                    return Read(view_of(self.objects[self._uid()], ADAPTER)) if self.objects else Gone()
                return Read(view_of(present, ADAPTER))
            case ArchiveStep.PUT:
                return await self._put(_view(progress), result, name)
            case ArchiveStep.VERIFY:
                return await self._verified(progress, result)
            case ArchiveStep.RELEASE:
                return self._release(_view(progress), result, name)
            case ArchiveStep.DELETE:
                return self._delete(progress.uid, result, _view(progress).resource_version, name)

    def _record(self, view: ObjectView, name: str) -> Record:
        return record_of(
            view.content,
            resource="reports",
            completed_at=view.completed_at,
            successful=view.successful,
            reason=view.reason,
            archived_at=builders.wall(self.now),
            term=self.leaders[name].term,
        )

    async def _put(self, view: ObjectView, result: Result, name: str) -> archive_steps.StepOutcome:
        record = self._record(view, name)
        archiver = self.backend.archiver
        if self.down or result is Result.FAILED:
            return Unavailable("the archive is away", archive=True)
        if result is Result.REFUSED:
            return Refused("too large")
        if result is Result.CONFLICT:
            return Superseded()
        try:
            if result is Result.FULL:
                await self.backend.full(record)
            if result is not Result.UNKNOWN or self.stored_when_unknown:
                await archiver.put(record)
        except ArchiveConflict:
            return Superseded()
        except ArchiveUnavailable as error:
            return Unavailable(str(error), archive=True)
        except ArchiveRefused as error:
            return Refused(str(error))
        if result in (Result.LOST, Result.UNKNOWN):
            return Unavailable("no answer", archive=True)
        return Stored(record.digest)

    async def _verified(self, progress: ArchiveProgress, result: Result) -> archive_steps.StepOutcome:
        key = ByUid(KIND, progress.uid, (builders.NAMESPACE, NAME))
        if result is Result.MISSING:
            return RecordMissing()
        if self.down or result in (Result.FAILED, Result.LOST, Result.UNKNOWN):
            return Unavailable("the archive is away", archive=True)
        if result is Result.REFUSED:
            return Refused("not allowed")
        try:
            if result is Result.DIFFERS:
                await self.backend.edit(await self.backend.archiver.get(key))
            record = await self.backend.archiver.get(key)
        except NotArchived:
            return RecordMissing()
        except ArchiveCorrupt as error:
            return RecordCorrupt(str(error))
        except ArchiveUnavailable as error:
            return Unavailable(str(error), archive=True)
        except ArchiveRefused as error:
            return Refused(str(error))
        return ReadBack(record.digest, record.subject.resource_version)

    def _release(self, view: ObjectView, result: Result, name: str) -> archive_steps.StepOutcome:
        stored = self.objects.get(view.uid)
        if stored is None or result is Result.MISSING:
            self.rejected += name != self.leading
            return Gone()
        if result in (Result.FAILED, Result.FULL):
            return Unavailable("the API server is away", archive=False)
        if result is Result.REFUSED:
            return Refused("forbidden")
        if result is Result.CONFLICT and stored["metadata"]["resourceVersion"] == view.resource_version:
            self._changed(view.uid, labels={"changed": "meanwhile"})
        if self.objects[view.uid]["metadata"]["resourceVersion"] != view.resource_version:
            self.rejected += name != self.leading
            return Superseded()
        write = finalizer_removal_write(view, _CONFIG, self.leaders[name].term, archived=True)
        after = json_patch(stored, [dict(operation) for operation in write.operations])
        if not isinstance(after, Mapping):
            raise AssertionError(f"{write} does not apply: {after}")
        asked = WriteRequest(Writer(Role.SUPERVISOR), after, leader_term=self.leaders[self.leading].term)
        if refusal := admit(stored, asked, FENCE):
            self.rejected += 1
            return Refused(str(refusal))
        self.objects[view.uid] = dict(after)
        self.released.append(view.resource_version)
        self._changed(view.uid)
        answer = view_of(self.objects[view.uid], ADAPTER)
        if answer.deleting and not answer.finalizers:
            del self.objects[view.uid]
        lost = result in (Result.LOST, Result.UNKNOWN)
        return Unavailable("no answer", archive=False) if lost else Released(answer)

    def _delete(self, uid: str, result: Result, version: str = "", name: str = "") -> archive_steps.StepOutcome:
        """With the UID as precondition, and the version if it is given: others are none of its business."""
        if result in (Result.FAILED, Result.FULL):
            return Unavailable("the API server is away", archive=False)
        if result is Result.REFUSED:
            return Refused("forbidden")
        if result is Result.MISSING:
            self.objects.pop(uid, None)
        if uid not in self.objects:
            self.rejected += name not in ("", self.leading)
            return Gone()
        if result is Result.CONFLICT and version in ("", self.objects[uid]["metadata"]["resourceVersion"]):
            self._changed(uid, labels={"changed": "meanwhile"})
        if version not in ("", self.objects[uid]["metadata"]["resourceVersion"]):
            self.rejected += name not in ("", self.leading)
            return Superseded()
        finalizers = self.objects[uid]["metadata"].get("finalizers", ())
        assert FINALIZER not in finalizers, "only what was released is deleted"
        if finalizers:
            self._changed(uid, deletionTimestamp="2026-01-01T00:00:00Z")
        else:
            del self.objects[uid]
        lost = result in (Result.LOST, Result.UNKNOWN)
        return Unavailable("no answer", archive=False) if lost else Deleted()

    async def _restore(self) -> None:
        self.record = await self.backend.archiver.get(ByName(KIND, builders.NAMESPACE, NAME))
        found = restored(self.record, MARKS, lambda content: ADAPTER.assign_to(content, None), None)
        self.version += 1
        content = {**found.content, **({"status": found.status} if found.status is not None else {})}
        server_set = {"uid": "restored", "resourceVersion": str(self.version), "generation": 1}
        self.objects["restored"] = _with(content, **server_set, creationTimestamp="2027-01-01T00:00:00Z")


def _is_failure(event: Event) -> bool:
    return isinstance(event, Call) and event.result not in (Result.OK, Result.LOST, Result.UNKNOWN, Result.CONFLICT)


def _view(progress: ArchiveProgress) -> ObjectView:
    assert progress.view is not None
    return progress.view


def _with(content: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**content, "metadata": {**content["metadata"], **metadata}}
