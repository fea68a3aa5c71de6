"""Two supervisors archive one completed object, step by step, while all possible events happen to it.

The shipped `next_progress` decides the next step from the outcome of a step. The shipped `record_of`,
`finalizer_removal_write` and `guarded_patch` build records and patches. Each supervisor may be the leader, or its
predecessor that has not noticed the change. A crash forgets the progress.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, NamedTuple

from situate.archive.records.equality import content_digest
from situate.archive.records.record import Record, record_of
from situate.cluster.patch.patches import json_patch
from situate.sharding.assignment.archive_steps import (
    ArchiveProgress,
    ArchiveStep,
    Deleted,
    Finished,
    Gone,
    OutcomeContext,
    Read,
    ReadBack,
    RecordMissing,
    Released,
    Retry,
    StepOutcome,
    Stored,
    Superseded,
    Unavailable,
    finalizer_removal_write,
    marks_of,
    next_progress,
)
from situate.sharding.model.field_paths import FieldPaths
from situate.sharding.model.names import FINALIZER
from situate.sharding.model.object_view import ObjectView, view_of
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.testing.sharding.exploration.search import InvariantBroken, SafetyGuard

UID: Final = "first"
PATHS: Final = FieldPaths()
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_CONFIG: Final = SupervisorConfig(archive_ttl=0.0)


class ArchiveWorld(NamedTuple):
    """One state of the world."""

    stored: str
    """The object of that name, as text. Empty: none."""
    record: str
    """The archived version of the first object, as text. Empty: none."""
    jobs: tuple[str, str]
    """The progress of each supervisor; see `_job_name`."""
    released: str
    """The version from which we removed our finalizer, as text. Empty: none."""
    version: int
    begun: int = 0
    """Number of supervisors that have begun. The second one is the next leader."""
    crashes: int = 1
    lost: int = 1
    """Number of answers, of server or archive, that may still get lost."""
    bad: int = 1
    """Number of times that the archive may still accept a record and not store it."""
    edits: int = 1
    """Number of times that a user may still edit the object."""
    deletes: int = 1
    """Number of times that a user may still delete it, and use its name again."""


_JOBS: dict[str, ArchiveProgress] = {"": ArchiveProgress(UID, delete=True)}


def first_world(*, deleting: bool = False) -> ArchiveWorld:
    """Return the world with a completed, due object. `deleting`: a user has requested its deletion."""
    metadata = {"name": "r", "namespace": "work", "uid": UID, "resourceVersion": "1", "finalizers": [FINALIZER]}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {"completedAt": "2025-12-31T00:00:00Z", "successful": True}
    content = {
        "apiVersion": "batch.example.com/v1",
        "kind": "Report",
        "metadata": metadata,
        "spec": {},
        "status": status,
    }
    return ArchiveWorld(_encode_content(content), "", ("-", "-"), "", 1)


def next_worlds(without: frozenset[SafetyGuard] = frozenset()) -> Any:
    """Return the function that yields all possible next states, by name."""

    def of(world: ArchiveWorld) -> Iterator[tuple[str, ArchiveWorld]]:
        for number in (0, 1):
            job = world.jobs[number]
            if job == "-":
                if number <= world.begun <= number:
                    yield f"s{number + 1} begins", _with_job(world, number, "")._replace(begun=world.begun + 1)
                continue
            yield from _step_worlds(world, number, _JOBS[job], without)
            if world.crashes:
                yield f"s{number + 1} dies", _with_job(world, number, "")._replace(crashes=world.crashes - 1)
        if world.stored and world.edits:
            content = json.loads(world.stored)
            content["spec"]["edited"] = world.edits
            yield "a user edits", _store_content(world, content)._replace(edits=world.edits - 1)
        if world.stored and world.deletes and parse_view(world.stored).uid == UID:
            yield "a user deletes", _delete_as_user(world)._replace(deletes=world.deletes - 1)
        if not world.stored and not world.deletes:
            metadata = {"name": "r", "namespace": "work", "uid": "second", "resourceVersion": "0"}
            yield (
                "the name is used again",
                _store_content(world, {**json.loads(first_world().stored), "metadata": metadata}),
            )

    return of


@cache
def parse_view(text: str) -> ObjectView:
    return view_of(json.loads(text), PATHS)


def unfinished_work(world: ArchiveWorld) -> str:
    """Return work that an undisturbed leader does not finish. Empty: none."""
    for _ in range(40):
        after = next(_step_worlds(world, 1, _JOBS[world.jobs[1] if world.jobs[1] != "-" else ""], frozenset()))[1]
        if after == world:
            break
        world = after
    if not world.stored:
        return ""
    view = parse_view(world.stored)
    return f"L4: {view.uid} stays, with {view.finalizers}" if view.uid == UID and view.finalizers else ""


def _step_worlds(
    world: ArchiveWorld, number: int, job: ArchiveProgress, without: frozenset[SafetyGuard]
) -> Iterator[tuple[str, ArchiveWorld]]:
    """Yield one step of a supervisor with each of its outcomes."""
    who = f"s{number + 1}: {job.step.value}"
    for how, outcome, after in _outcomes(world, job, without):
        done = next_progress(job, outcome, OutcomeContext(0.0, _NOW, _CONFIG))
        match done:
            case ArchiveProgress() as progress:
                pass
            case Retry(progress=progress):
                pass
            case Finished():
                progress = ArchiveProgress(UID, delete=True)
        if SafetyGuard.READ_BACK in without and progress.step is ArchiveStep.VERIFY:
            assert progress.view is not None
            progress = next_progress(
                progress, ReadBack(progress.digest, progress.view.resource_version), OutcomeContext(0.0, _NOW, _CONFIG)
            )  # type: ignore[assignment]  # an unchanged record goes on
        yield f"{who}{how}", _with_job(after, number, _job_name(progress))


def _outcomes(
    world: ArchiveWorld, job: ArchiveProgress, without: frozenset[SafetyGuard]
) -> Iterator[tuple[str, StepOutcome, ArchiveWorld]]:
    view = job.view
    if job.step is ArchiveStep.READ:
        yield "", Read(parse_view(world.stored)) if world.stored else Gone(), world
        return
    assert view is not None, "a step after the reading has a version"
    match job.step:
        case ArchiveStep.PUT:
            record, present = _record_of(_encode_content(view.content)), world.record
            newer = present and int(parse_view(present).resource_version) > int(view.resource_version)
            kept = world if newer else world._replace(record=_encode_content(view.content))
            yield "", Superseded() if newer else Stored(record.digest), kept
            if world.lost:
                lost = Unavailable("no answer", archive=True)
                yield ", its answer lost", lost, kept._replace(lost=world.lost - 1)
            if world.bad:
                yield ", but the archive lost it", Stored(record.digest), world._replace(bad=world.bad - 1)
        case ArchiveStep.VERIFY:
            if not world.record:
                yield "", RecordMissing(), world
            else:
                found = _record_of(world.record)
                yield "", ReadBack(found.digest, found.subject.resource_version), world
        case ArchiveStep.RELEASE:
            operations = [
                dict(each)
                for each in finalizer_removal_write(view, _CONFIG, leader_term(world), archived=True).operations
            ]
            yield from _removal_worlds(world, operations, without)
        case ArchiveStep.DELETE:
            yield from _deletion_worlds(world, view, without)


def leader_term(world: ArchiveWorld) -> int:
    """Return the term of the leader."""
    return world.begun


def _removal_worlds(
    world: ArchiveWorld, operations: list[dict[str, Any]], without: frozenset[SafetyGuard]
) -> Iterator[tuple[str, StepOutcome, ArchiveWorld]]:
    """Yield the removal of the finalizer if the object is unchanged since it was read."""
    if not world.stored:
        yield "", Gone(), world
        return
    stored = json.loads(world.stored)
    if SafetyGuard.FINALIZER in without:
        operations = [each for each in operations if each["path"] != "/metadata/resourceVersion"]
    if SafetyGuard.UID in without:
        operations = [each for each in operations if each["path"] != "/metadata/uid"]
    patched = json_patch(stored, operations)
    if not isinstance(patched, dict):
        yield "", Superseded(), world
        return
    if patched["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
        yield "", Superseded(), world
        return
    before = parse_view(world.stored)
    if before.uid == UID and world.record != world.stored:
        raise InvariantBroken(
            f"S7: the finalizer is removed from version {before.resource_version}, which is not in the archive"
        )
    after = _store_content(world, patched)._replace(released=world.stored)
    gone = not after.stored  # it was being deleted
    yield "", Released(view_of(patched, PATHS) if gone else parse_view(after.stored)), after
    if world.lost:
        yield ", its answer lost", Unavailable("no answer", archive=False), after._replace(lost=world.lost - 1)


def _deletion_worlds(
    world: ArchiveWorld, view: ObjectView, without: frozenset[SafetyGuard]
) -> Iterator[tuple[str, StepOutcome, ArchiveWorld]]:
    if not world.stored:
        yield "", Gone(), world
        return
    stored = parse_view(world.stored)
    same = stored.uid == view.uid and stored.resource_version == view.resource_version
    if not same and SafetyGuard.UID not in without:
        yield "", Superseded(), world
        return
    if stored.uid != UID or not world.released:
        raise InvariantBroken(f"S9: {stored.uid} is deleted, but not archived")
    if stored.archived != _content_digest(world.stored):
        raise InvariantBroken(f"S9: version {stored.resource_version} is deleted, but another content is archived")
    after = world if stored.finalizers else world._replace(stored="")
    yield "", Deleted(), after
    if world.lost:
        yield ", its answer lost", Unavailable("no answer", archive=False), after._replace(lost=world.lost - 1)


def _delete_as_user(world: ArchiveWorld) -> ArchiveWorld:
    content = json.loads(world.stored)
    if not content["metadata"].get("finalizers"):
        return world._replace(stored="")
    content["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return _store_content(world, content)


def _store_content(world: ArchiveWorld, content: Any) -> ArchiveWorld:
    metadata = {**content["metadata"], "resourceVersion": str(world.version + 1)}
    gone = metadata.get("deletionTimestamp") and not metadata.get("finalizers")
    stored = "" if gone else _encode_content({**content, "metadata": metadata})
    return world._replace(stored=stored, version=world.version + 1)


def _with_job(world: ArchiveWorld, number: int, job: str) -> ArchiveWorld:
    return world._replace(jobs=(job, world.jobs[1]) if number == 0 else (world.jobs[0], job))


def _job_name(progress: ArchiveProgress) -> str:
    """Return a name of the progress that affects the future. The number of failures does not."""
    progress = ArchiveProgress(UID, progress.delete, progress.step, progress.view, progress.digest)
    content = "" if progress.view is None else _encode_content(progress.view.content)
    name = f"{progress.step.value} {progress.delete} {progress.digest} {content}"
    if progress.step is ArchiveStep.READ and progress.view is None:
        name = ""
    _JOBS.setdefault(name, progress)
    return name


@cache
def _record_of(text: str) -> Record:
    view = parse_view(text)
    return record_of(
        json.loads(text),
        resource="reports",
        completed_at=view.completed_at,
        successful=view.successful,
        reason=view.reason,
        archived_at=_NOW,
        term=1,
    )


@cache
def _content_digest(text: str) -> str:
    return content_digest(json.loads(text), marks_of(_CONFIG))


def _encode_content(content: Any) -> str:
    return json.dumps(content, sort_keys=True)
