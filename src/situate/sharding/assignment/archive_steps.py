"""Decide when an object is archived, and give the next step, so that every crash and every lost answer is harmless.

The steps: read the object from the API, put the record, and read the record back. Then remove our finalizer from the
version that was read back, and only from that version. Last, delete the object. After any failure the first step is
repeated, so that the next write is decided on the current object. The shell performs one step at a time and passes its
outcome to `next_progress`. The shell keeps only the `ArchiveProgress`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Final, TypeAlias, assert_never

from situate.archive.records.equality import Marks, content_digest
from situate.sharding.model.actions import Write
from situate.sharding.model.names import (
    ARCHIVED,
    ASSIGNED_AT,
    DRAIN,
    EPOCH,
    EXECUTOR,
    EXECUTOR_UID,
    LOSSES,
    REVOKED,
    TERM,
    WHY,
)
from situate.sharding.model.object_view import ObjectView, content_without_finalizer
from situate.sharding.model.patches import guarded_patch
from situate.sharding.model.supervisor_config import OnUnavailable, SupervisorConfig

_ANNOTATIONS: Final = frozenset({ARCHIVED, ASSIGNED_AT, DRAIN, EPOCH, EXECUTOR_UID, LOSSES, REVOKED, TERM, WHY})
RETRY_CAP_S: Final = 300.0
"""Maximum back-off after a temporary failure."""
REFUSED_CAP_S: Final = 3600.0
"""Maximum back-off after a permanent failure."""


def archive_due_s(view: ObjectView, config: SupervisorConfig, wall: datetime, rank: int | None) -> float:
    """Return the seconds until the object is archived by age.

    0 or less means now, infinity means never unless an event changes that. Age counts from completion, or from creation
    if that is later, because the completion of a restored object is old. The object is due from age = TTL on, as in
    KSched. `rank`: see `completion_ranks`.
    """
    ttl = config.ttl.ttl_of(view.successful)
    if view.completed_at is None or ttl is None or view.held or not config.archive_when(view):
        return math.inf
    if rank is not None and config.keep_last_per_owner is not None and rank <= config.keep_last_per_owner:
        return math.inf
    born = view.completed_at if view.created_at is None else max(view.completed_at, view.created_at)
    return ttl - (wall - born).total_seconds()


def owners_archive_due_s(
    view: ObjectView,
    config: SupervisorConfig,
    wall: datetime,
    rank: Callable[[ObjectView], int | None],
    owner: Callable[[ObjectView], ObjectView | None],
) -> float:
    """Return the least `archive_due_s` of the owner, its owner and so on; infinity if none of them is ever due."""
    due_s, seen, above = math.inf, {view.uid}, owner(view)
    while above is not None and above.uid not in seen:
        seen.add(above.uid)
        due_s = min(due_s, archive_due_s(above, config, wall, rank(above)))
        above = owner(above)
    return due_s


def due_before_owners_s(view: ObjectView, config: SupervisorConfig, due_s: float, owners_due_s: float) -> float:
    """Return the seconds until the object is due, given that it goes before its owners.

    An object that must not be archived by age keeps `due_s`.
    """
    if view.completed_at is None or view.held or not config.archive_when(view):
        return due_s
    return min(due_s, owners_due_s)


def completion_ranks(views: Iterable[ObjectView]) -> dict[str, int]:
    """Return, by UID, the rank of each completed object among those of its controlling owner; the latest has rank 1."""
    completed = [view for view in views if view.completed_at is not None and view.owner_uid]
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    for view in sorted(completed, key=lambda view: (view.completed_at, view.uid), reverse=True):
        counts[view.owner_uid] = found[view.uid] = counts.get(view.owner_uid, 0) + 1
    return found


class ArchiveStep(Enum):
    """The next step that the shell performs."""

    READ = "read"
    """Read the object from the API, not from a cache."""
    PUT = "archive"
    VERIFY = "verify"
    """Read the record back, by UID."""
    RELEASE = "remove_finalizer"
    DELETE = "delete"
    """Delete the object with UID and resourceVersion of `Progress.view` as preconditions.

    A later object of the same name is another object, and later writes are not in the archive.
    """


@dataclass(frozen=True, slots=True)
class ArchiveProgress:
    """The state of the archiving of one object. After a crash the next supervisor starts again, which is harmless."""

    uid: str
    delete: bool
    """Whether to delete the object in the end."""
    step: ArchiveStep = ArchiveStep.READ
    view: ObjectView | None = None
    """The version that is archived, later the version without the finalizer; None before the first read."""
    digest: str = ""
    """Digest of the record that was put."""
    failures: int = 0
    """Number of consecutive failures."""
    failing_since: float | None = None
    """Time of the first of these failures, on the monotonic clock; None without a failure."""


@dataclass(frozen=True, slots=True)
class Read:
    """The object exists; it may be another object of the same name."""

    view: ObjectView


@dataclass(frozen=True, slots=True)
class Gone:
    """The object does not exist, or not with this UID."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The archive stored the record."""

    digest: str


@dataclass(frozen=True, slots=True)
class ReadBack:
    """The record, as read back from the archive."""

    digest: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class RecordMissing:
    """The archive does not have the record, although it accepted it."""


@dataclass(frozen=True, slots=True)
class RecordCorrupt:
    """The record cannot be read."""

    message: str


@dataclass(frozen=True, slots=True)
class Released:
    """The finalizer is removed, and the annotation is written."""

    view: ObjectView
    """The object in the answer of the API."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The API server accepted the deletion."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """A conflict: the object, or its record in the archive, is newer than the version that was read."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A temporary failure; the call may still have been carried out. `archive`: whether the archive failed."""

    message: str
    archive: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """A permanent failure: too large, no permission, or a supervisor that no longer leads."""

    message: str


StepOutcome: TypeAlias = (
    Read
    | Gone
    | Stored
    | ReadBack
    | RecordMissing
    | RecordCorrupt
    | Released
    | Deleted
    | Superseded
    | Unavailable
    | Refused
)


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of the archiving; a change of the object leads to a new decision."""

    why: str


@dataclass(frozen=True, slots=True)
class Retry:
    """A new start after the back-off for `progress.failures`, at most `cap_s`."""

    progress: ArchiveProgress
    message: str
    cap_s: float = RETRY_CAP_S
    condition: bool = False
    """Whether to set the condition ArchiveFailed on the object, and to write an Event."""
    alert: bool = False
    """Whether the archive holds a record that differs from the one that was put, or cannot be read."""


@dataclass(frozen=True, slots=True)
class OutcomeContext:
    """The inputs for judging an outcome."""

    now: float
    """On the monotonic clock."""
    wall: datetime
    config: SupervisorConfig
    rank: int | None = None
    owners_due_s: float = math.inf
    """See `owners_archive_due_s`."""


def next_progress(
    progress: ArchiveProgress, outcome: StepOutcome, moment: OutcomeContext
) -> ArchiveProgress | Retry | Finished:
    """Return the state after a step with this outcome.

    The step of a returned `ArchiveProgress` is performed at once.
    """
    match outcome:
        case Gone() | Deleted():
            return Finished("the object is gone")
        case Read(view):
            return _progress_after_read(progress, view, moment)
        case Stored(digest):
            return replace(progress, step=ArchiveStep.VERIFY, digest=digest)
        case ReadBack():
            return _progress_after_verify(progress, outcome, moment)
        case RecordMissing():
            return _retry_after_failure(
                progress, moment, "the archive accepted the record but does not contain it", condition=True
            )
        case RecordCorrupt(message):
            return _retry_after_failure(progress, moment, message, condition=True, alert=True)
        case Released(view):
            done = Finished("the object is archived, and its deletion was already requested")
            return replace(progress, step=ArchiveStep.DELETE, view=view) if progress.delete else done
        case Superseded():
            return replace(progress, step=ArchiveStep.READ, view=None, digest="")
        case Unavailable(message, archive):
            return _progress_after_outage(progress, moment, message, archive)
        case Refused(message):
            of_archive = progress.step in (ArchiveStep.PUT, ArchiveStep.VERIFY)
            return _retry_after_failure(progress, moment, message, cap_s=REFUSED_CAP_S, condition=of_archive)
        case _ as never:
            assert_never(never)


def is_archived_unchanged(view: ObjectView, config: SupervisorConfig) -> bool:
    """Return whether the object was archived unchanged and our finalizer removed: a crash preceded the deletion."""
    if not view.archived or view.has_finalizer(config.finalizer):
        return False
    return view.archived == content_digest(view.content, marks_of(config))


def finalizer_removal_write(view: ObjectView, config: SupervisorConfig, term: int, *, archived: bool) -> Write:
    """Return the write that removes the finalizer from exactly the version that was read back (step 4).

    `archived` False: a user's delete goes through without a record in the archive.
    """
    digest = content_digest(view.content, marks_of(config)) if archived else ""
    return Write(guarded_patch(view.content, content_without_finalizer(view, config.finalizer, term, digest)))


def marks_of(config: SupervisorConfig) -> Marks:
    """Return the marks that situate writes on objects; the digest of an archived object ignores them."""
    return Marks(config.finalizer, _ANNOTATIONS, frozenset({EXECUTOR}))


def _progress_after_read(
    progress: ArchiveProgress, view: ObjectView, moment: OutcomeContext
) -> ArchiveProgress | Finished:
    config = moment.config
    if view.uid != progress.uid:
        return Finished("another object now has this name")
    if is_archived_unchanged(view, config):
        if view.deleting:
            return Finished("the object is archived and being deleted")
        return replace(progress, step=ArchiveStep.DELETE, view=view, delete=True)
    if view.deleting:
        if not view.has_finalizer(config.finalizer):
            return Finished("the object is being deleted and waits for other finalizers")
        return replace(progress, step=ArchiveStep.PUT, view=view, delete=False)
    due_s = archive_due_s(view, config, moment.wall, moment.rank)
    if due_before_owners_s(view, config, due_s, moment.owners_due_s) > 0:
        return Finished("the object is not due for the archive")
    return replace(progress, step=ArchiveStep.PUT, view=view, delete=True)


def _progress_after_verify(
    progress: ArchiveProgress, found: ReadBack, moment: OutcomeContext
) -> ArchiveProgress | Retry:
    assert progress.view is not None, "a record is verified after the object was read"
    wanted = ReadBack(progress.digest, progress.view.resource_version)
    if found == wanted:
        return replace(progress, step=ArchiveStep.RELEASE, failures=0, failing_since=None)
    message = (
        f"the archive holds digest {found.digest} of resourceVersion {found.resource_version}, expected "
        f"digest {wanted.digest} of resourceVersion {wanted.resource_version}"
    )
    return _retry_after_failure(progress, moment, message, condition=True, alert=True)


def _progress_after_outage(
    progress: ArchiveProgress, moment: OutcomeContext, message: str, archive: bool
) -> ArchiveProgress | Retry:
    since = moment.now if progress.failing_since is None else progress.failing_since
    deleting = progress.view is not None and progress.view.deleting
    config = moment.config
    lets_go = archive and deleting and config.archive_on_unavailable is OnUnavailable.RELEASE
    if lets_go and moment.now - since >= config.release_after:
        return replace(progress, step=ArchiveStep.RELEASE, digest="", failing_since=since)
    return _retry_after_failure(progress, moment, message, condition=archive)


def _retry_after_failure(
    progress: ArchiveProgress,
    moment: OutcomeContext,
    message: str,
    cap_s: float = RETRY_CAP_S,
    *,
    condition: bool = False,
    alert: bool = False,
) -> Retry:
    since = moment.now if progress.failing_since is None else progress.failing_since
    # the view stays, so that during an outage it is known whether a user waits for the deletion
    after = replace(progress, step=ArchiveStep.READ, failures=progress.failures + 1, failing_since=since, digest="")
    return Retry(after, message, cap_s, condition, alert)
