"""supervisor.json: one object, reconciled until nothing is left to do now; the orders are named as its README does.

The language has no word for telling the strategy, nor for taking an object back while nobody can have it; those are
not listed. A holder that is asked to stop acks at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from situate.archive.records.canonical_json import canonical_json, digest
from situate.sharding.assignment.archive_steps import (
    ArchiveProgress,
    ArchiveStep,
    Deleted,
    Finished,
    OutcomeContext,
    Read,
    ReadBack,
    RecordMissing,
    Released,
    Retry,
    Stored,
    Unavailable,
    finalizer_removal_write,
    next_progress,
)
from situate.sharding.assignment.archive_steps import (
    StepOutcome as StepOutcome,
)
from situate.sharding.assignment.decide import decide
from situate.sharding.assignment.holder_status import updated_memory
from situate.sharding.model.actions import (
    Action,
    Archive,
    Assign,
    Complete,
    Delete,
    RemoveFinalizer,
    ReportCompleted,
    RequestDrain,
    Revoke,
)
from situate.sharding.model.decision_inputs import INITIAL_MEMORY, Decision
from situate.sharding.model.object_view import ObjectView
from situate.sharding.model.supervisor_config import ArchiveTtl, OrphanPolicy, SupervisorConfig
from tests.conformance.ksched_world import Actor, Supervisor, World
from tests.conformance.outcome import Case, Outcome, UnknownOperationError, UnknownPhraseError, compared, failed
from tests.sharding import builders

NOW: Final = 1_000_000.0
LONG_S: Final = 7200.0
"""For how long the supervisor has been watching."""
UID: Final = "o1"
_ARCHIVERS: Final = frozenset({"ok", "error", "none", "write_ok_read_missing"})
_REQUEUES: Final = frozenset({"none", "later", "backoff", "at_expiry", "later_or_event"})
_ENV: Final = {
    "executors": {},
    "last_executor_change_age_s": 3600,
    "scheduler_jitter_s": 1,
    "archive_ttl_s": 300,
    "archiver": "ok",
}
"""What a case does not say of the environment."""
_STATUSES: Final = frozenset({"Healthy", "Full", "Unhealthy", "Draining", "Removed"})


def supervisor(case: Case) -> Outcome:
    """One case."""
    env, expect = {**_ENV, **case["env"]}, case["expect"]
    if env["archiver"] not in _ARCHIVERS:
        raise UnknownOperationError(f"archiver {env['archiver']!r}; known: {', '.join(sorted(_ARCHIVERS))}")
    if expect.get("requeue", "none") not in _REQUEUES:
        raise UnknownOperationError(f"requeue {expect['requeue']!r}; known: {', '.join(sorted(_REQUEUES))}")
    play = _Play(case["object"], env)
    actions = list(play.reconciled())
    if "actions" in expect and merged(actions) != merged(expect["actions"] or []):
        return compared({"actions": actions}, {"actions": expect["actions"]})
    if expect.get("requeue", next(iter(play.requeues))) not in play.requeues:
        return failed(f"requeue: expected {expect['requeue']}, got {' or '.join(sorted(play.requeues))}")
    return compared({}, {key: value for key, value in expect.items() if key not in ("actions", "requeue")})


def merged(actions: list[str]) -> list[str]:
    """Two writes that may be one are in any order."""
    found = list(actions)
    for first, second in zip(range(len(found)), range(1, len(found)), strict=False):
        if found[second] == "add_finalizer" and found[first].startswith(("assign:", "reassign:")):
            found[first], found[second] = found[second], found[first]
    return found


class _Play:
    """A supervisor that has been watching for long, and the object."""

    def __init__(self, wire: Mapping[str, Any], env: Mapping[str, Any]) -> None:
        self._env = env
        self._world = World()
        for name, status in env["executors"].items():
            if status not in _STATUSES:
                raise UnknownOperationError(f"status {status!r}; known: {', '.join(sorted(_STATUSES))}")
            pod = {"ready": status != "Unhealthy", "cordoned": status == "Draining"}
            held = status != "Removed"
            self._world.actors[f"uid-{name}"] = Actor(name, f"uid-{name}", pod=pod, held=held, full=status == "Full")
        if wire.get("exists", True):
            self._world.objects[UID] = _object(wire)
        self._supervisor = Supervisor(self._world, _config(env), 1, has_archiver=env["archiver"] != "none")
        self.requeues: set[str] = {"none"}
        self._watch()

    def reconciled(self) -> Iterator[str]:
        """The names of what was done."""
        while True:
            members = self._supervisor.observe(NOW)
            view = self._world.view(UID) if UID in self._world.objects else None
            memory = self._supervisor.memories.get(UID, INITIAL_MEMORY)
            decision = decide(view, memory, self._supervisor.situation(NOW, members))
            self._supervisor.memories[UID] = decision.memory
            self.requeues = self._requeues(decision, view)
            going_on = False
            for action in decision.actions:
                assert view is not None, "only an object that is there is acted on"
                yield from self._named(action, self._world.view(UID))
                going_on = going_on or isinstance(action, RequestDrain | Revoke)
            if not going_on:
                return

    def _named(self, action: Action, view: ObjectView) -> Iterator[str]:
        match action:
            case Archive(delete):
                yield from self._archived(delete)
                return
            case Assign(placement):
                if placement.finalizer is not None and not view.has_finalizer(placement.finalizer):
                    yield "add_finalizer"
                yield f"{'assign' if view.holder is None else 'reassign'}:{placement.holder.executor}"
            case RequestDrain():
                yield "stop_executor_and_wait_ack"
            case Complete(_, reason):
                yield f"complete:failed:{reason}"
            case RemoveFinalizer():
                yield "remove_finalizer"
            case Delete():
                yield "delete"
            case Revoke() | ReportCompleted():
                pass
        self._supervisor.perform(UID, action)
        if isinstance(action, RequestDrain):
            self._world.release(UID)

    def _archived(self, delete: bool) -> Iterator[str]:
        """The steps of archiving, against the archive of the case."""
        progress = ArchiveProgress(UID, delete)
        config = self._supervisor.config
        while True:
            outcome = self._performed(progress)
            bad = isinstance(outcome, Unavailable | RecordMissing)
            if progress.step is not ArchiveStep.READ:
                yield f"{progress.step.value}{':failed' if bad else ''}"
            after = next_progress(progress, outcome, OutcomeContext(NOW, builders.wall(NOW), config))
            if isinstance(after, Finished):
                return
            if isinstance(after, Retry):
                self.requeues = {"backoff"}
                return
            progress = after

    def _performed(self, progress: ArchiveProgress) -> StepOutcome:
        archiver = self._env["archiver"]
        view = progress.view or self._world.view(UID)
        match progress.step:
            case ArchiveStep.READ:
                return Read(self._world.view(UID))
            case ArchiveStep.PUT:
                stored = Stored(digest(canonical_json(view.content)))
                return Unavailable("the archive is away", archive=True) if archiver == "error" else stored
            case ArchiveStep.VERIFY:
                if archiver == "write_ok_read_missing":
                    return RecordMissing()
                return ReadBack(progress.digest, view.resource_version)
            case ArchiveStep.RELEASE:
                self._world.write(UID, finalizer_removal_write(view, self._supervisor.config, 1, archived=True), 1)
                return Released(self._world.view(UID))
            case ArchiveStep.DELETE:
                del self._world.objects[UID]
                return Deleted()

    def _requeues(self, decision: Decision, view: ObjectView | None) -> set[str]:
        """The words of the language that this decision may be called."""
        if decision.wake_at is not None and view is not None and view.completed_at is not None:
            ttl = self._supervisor.config.ttl.ttl_of(view.successful)
            assert ttl is not None, "nothing else is waited for"
            expiry = (view.completed_at - builders.wall(0)).total_seconds() + ttl
            return {"at_expiry"} if abs(decision.wake_at - expiry) < 1e-3 else {"later"}
        if decision.wake_at is None and view is not None and view.completed:
            return {"none", "later_or_event"}  # kept for ever, unless somebody changes something
        return {"later", "later_or_event"} if decision.waits or decision.wake_at is not None else {"none"}

    def _watch(self) -> None:
        """What the supervisor saw before: the object all the time, the executors' last change when the case says."""
        supervisor, changed_s = self._supervisor, self._env["last_executor_change_age_s"]
        told = self._env.get("observations")
        began = NOW - max(LONG_S, 2 * (changed_s or 0.0))
        if UID in self._world.objects:
            situation = supervisor.situation(began, supervisor.membership.members(began, {}))
            supervisor.memories[UID] = updated_memory(INITIAL_MEMORY, self._world.view(UID), situation)
        supervisor.membership.record_synced(began)
        if changed_s is None:
            self._observations(told)
            return
        actors, self._world.actors = self._world.actors, {}
        gone = Actor("somebody", "uid-somebody")
        if not actors:
            self._world.actors = {gone.uid: gone}
            supervisor.observe(began)
            gone.held = gone.has_pod = False
        else:
            self._world.actors = actors
        supervisor.observe(NOW - changed_s)
        self._renew(NOW)

    def _observations(self, told: object) -> None:
        """Reports that are no changes, again and again."""
        if told is None:
            self._renew(NOW)
            return
        period = _period_s(str(told))
        flaps = re.search(r"\b(flap|alternat|toggl)", str(told)) is not None
        if flaps and re.search(r"\b(no|not|never|without)\b", str(told)):
            raise UnknownPhraseError(str(told))
        for count in range(round(60 / period), -1, -1):
            for actor in self._world.actors.values() if flaps else ():
                was_ready = actor.pod.get("ready", True)
                actor.pod["ready"] = was_ready if count == 0 else bool(count % 2) is not was_ready
                self._supervisor.observe(NOW - count * period)
                actor.pod["ready"] = was_ready
            self._renew(NOW - count * period)

    def _renew(self, now: float) -> None:
        for actor in self._world.actors.values():
            actor.renewed = now if actor.held else actor.renewed
        self._supervisor.observe(now)


def _period_s(told: str) -> float:
    """How long it is from one report to the next."""
    if every := re.search(r"every ([\d.]+) ?(ms|s|milliseconds?|seconds?)\b", told):
        return float(every[1]) / (1000 if every[2].startswith("m") else 1)
    if re.search(r"(every|a|per|each) second\b", told):
        times = re.search(r"([\d.]+)(?: \w+)* (?:times )?(?:a|per|each) second\b", told)
        return 1 / float(times[1]) if times else 1.0
    raise UnknownPhraseError(told)


def _config(env: Mapping[str, Any]) -> SupervisorConfig:
    ttl = env["archive_ttl_s"]
    return SupervisorConfig(
        scheduler_jitter=env["scheduler_jitter_s"],
        archive_ttl=ArchiveTtl(ttl["successful"], ttl["failed"]) if isinstance(ttl, Mapping) else ttl,
        orphan_policy=OrphanPolicy(env.get("orphan_policy", "reassign")),
    )


def _object(wire: Mapping[str, Any]) -> dict[str, Any]:
    age, executor = wire.get("completed_age_s"), wire.get("assigned_to")
    return builders.report(
        UID,
        executor=executor,
        executor_uid=f"uid-{executor}" if executor is not None else None,
        epoch=1 if executor is not None else None,
        completed=None if age is None else NOW - age,
        successful=wire.get("successful"),
        deleting=bool(wire.get("deleting")),
        finalizers=tuple(wire.get("other_finalizers") or ()),
        ours=bool(wire.get("has_our_finalizer")),
    )
