"""When an object goes into the archive, and how, step by step, so that every crash and every lost answer is harmless.

Steps: read it from the API, put it, read the copy back, let our finalizer go from just the version that was read back,
delete it. Whatever goes wrong leads to reading it anew: what is written then is decided on the object as it is. The
shell performs one step at a time and tells its outcome to `advanced`; it keeps nothing else.
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
from situate.sharding.model.object_view import ObjectView, without_finalizer
from situate.sharding.model.patches import guarded_patch
from situate.sharding.model.supervisor_config import OnUnavailable, SupervisorConfig

_ANNOTATIONS: Final = frozenset({ARCHIVED, ASSIGNED_AT, DRAIN, EPOCH, EXECUTOR_UID, LOSSES, REVOKED, TERM, WHY})
RETRY_CAP_S: Final = 300.0
"""Of the back-off after what may pass."""
REFUSED_CAP_S: Final = 3600.0
"""Of the back-off after what will not pass by itself."""


def due_in(view: ObjectView, config: SupervisorConfig, wall: datetime, rank: int | None) -> float:
    """Seconds until the object is to be archived by age: 0 or less is now, infinity never, unless an event changes it.

    Age counts from completion, or from creation where that is later: a restored object's completion is old. Equality
    archives, as in KSched. `rank`: see `ranks`.
    """
    ttl = config.ttl.of(view.successful)
    if view.completed_at is None or ttl is None or view.held or not config.archive_when(view):
        return math.inf
    if rank is not None and config.keep_last_per_owner is not None and rank <= config.keep_last_per_owner:
        return math.inf
    born = view.completed_at if view.created_at is None else max(view.completed_at, view.created_at)
    return ttl - (wall - born).total_seconds()


def owners_due_in(
    view: ObjectView,
    config: SupervisorConfig,
    wall: datetime,
    rank: Callable[[ObjectView], int | None],
    owner: Callable[[ObjectView], ObjectView | None],
) -> float:
    """As `due_in`, of the owner, its owner and so on, whichever is due first: infinity if none of them ever is."""
    due_s, seen, above = math.inf, {view.uid}, owner(view)
    while above is not None and above.uid not in seen:
        seen.add(above.uid)
        due_s = min(due_s, due_in(above, config, wall, rank(above)))
        above = owner(above)
    return due_s


def hastened(view: ObjectView, config: SupervisorConfig, due_s: float, owners_due_s: float) -> float:
    """When the object is due if it goes before its owner does; what may never go by age is not hastened."""
    if view.completed_at is None or view.held or not config.archive_when(view):
        return due_s
    return min(due_s, owners_due_s)


def ranks(views: Iterable[ObjectView]) -> dict[str, int]:
    """By UID, the place of each completed object among those of its controlling owner: the latest has 1."""
    completed = [view for view in views if view.completed_at is not None and view.owner_uid]
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    for view in sorted(completed, key=lambda view: (view.completed_at, view.uid), reverse=True):
        counts[view.owner_uid] = found[view.uid] = counts.get(view.owner_uid, 0) + 1
    return found


class Step(Enum):
    """What the shell performs next."""

    READ = "read"
    """The object from the API, not from a cache."""
    PUT = "archive"
    VERIFY = "verify"
    """Read the record back, by UID."""
    RELEASE = "remove_finalizer"
    DELETE = "delete"
    """With UID and resourceVersion of `Progress.view` as preconditions: a successor of the name is another object, and
    what somebody has written since is not in the archive."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the archiving of one object is. After a crash the next supervisor begins again; that is harmless."""

    uid: str
    delete: bool
    """Whether to delete it in the end."""
    step: Step = Step.READ
    view: ObjectView | None = None
    """The version that is archived, and then the one without the finalizer; None before it was read."""
    digest: str = ""
    """Of the record that was put."""
    failures: int = 0
    """In a row."""
    failing_since: float | None = None
    """On the monotonic clock; None while nothing has failed."""


@dataclass(frozen=True, slots=True)
class Read:
    """The object is there, maybe another one of the same name."""

    view: ObjectView


@dataclass(frozen=True, slots=True)
class Gone:
    """There is no such object, or not with this UID."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The archive has the record."""

    digest: str


@dataclass(frozen=True, slots=True)
class ReadBack:
    """The record in the archive."""

    digest: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class NotThere:
    """The archive has no such record, although it had taken it."""


@dataclass(frozen=True, slots=True)
class Corrupt:
    """The record cannot be read."""

    message: str


@dataclass(frozen=True, slots=True)
class Released:
    """The finalizer is gone, and the annotation is there."""

    view: ObjectView
    """As the API answered."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The deletion was accepted."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """A conflict: the object, or the archive's record of it, is newer than what was read."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """It may succeed later, and may have been carried out. `archive`: whether it is the archive that failed."""

    message: str
    archive: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """It will not succeed by itself: too large, no permission, a supervisor that leads no longer."""

    message: str


Outcome: TypeAlias = (
    Read | Gone | Stored | ReadBack | NotThere | Corrupt | Released | Deleted | Superseded | Unavailable | Refused
)


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is left to do; a change of the object is decided on anew."""

    why: str


@dataclass(frozen=True, slots=True)
class Retry:
    """Begin again after a back-off of so many failures, not longer than the cap."""

    progress: Progress
    message: str
    cap_s: float = RETRY_CAP_S
    condition: bool = False
    """Whether to say ArchiveFailed on the object, and to tell of it in an Event."""
    alert: bool = False
    """Whether the archive holds something else than it was given."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What an outcome is judged by."""

    now: float
    """Monotonic."""
    wall: datetime
    config: SupervisorConfig
    rank: int | None = None
    owners_due_s: float = math.inf
    """See `owners_due_in`."""


def advanced(progress: Progress, outcome: Outcome, moment: Moment) -> Progress | Retry | Finished:
    """What to do after a step has had this outcome: the progress's next step at once, unless it says otherwise."""
    match outcome:
        case Gone() | Deleted():
            return Finished("the object is gone")
        case Read(view):
            return _read(progress, view, moment)
        case Stored(digest):
            return replace(progress, step=Step.VERIFY, digest=digest)
        case ReadBack():
            return _verified(progress, outcome, moment)
        case NotThere():
            return _again(progress, moment, "the archive took the record and does not have it", condition=True)
        case Corrupt(message):
            return _again(progress, moment, message, condition=True, alert=True)
        case Released(view):
            done = Finished("the object is archived, and whoever wanted it deleted has asked for that")
            return replace(progress, step=Step.DELETE, view=view) if progress.delete else done
        case Superseded():
            return replace(progress, step=Step.READ, view=None, digest="")
        case Unavailable(message, archive):
            return _unavailable(progress, moment, message, archive)
        case Refused(message):
            of_archive = progress.step in (Step.PUT, Step.VERIFY)
            return _again(progress, moment, message, cap_s=REFUSED_CAP_S, condition=of_archive)
        case _ as never:
            assert_never(never)


def archived_already(view: ObjectView, config: SupervisorConfig) -> bool:
    """Whether the object was archived just as it is, and our finalizer let it go: a crash came before the deletion."""
    if not view.archived or view.has_finalizer(config.finalizer):
        return False
    return view.archived == content_digest(view.content, marks_of(config))


def released_write(view: ObjectView, config: SupervisorConfig, term: int, *, archived: bool) -> Write:
    """Step 4: the finalizer goes from the version that was read back, and from no other.

    `archived` False: the user's delete is let through without a copy.
    """
    digest = content_digest(view.content, marks_of(config)) if archived else ""
    return Write(guarded_patch(view.content, without_finalizer(view, config.finalizer, term, digest)))


def marks_of(config: SupervisorConfig) -> Marks:
    """What we write on objects, and what is therefore no part of what was archived."""
    return Marks(config.finalizer, _ANNOTATIONS, frozenset({EXECUTOR}))


def _read(progress: Progress, view: ObjectView, moment: Moment) -> Progress | Finished:
    config = moment.config
    if view.uid != progress.uid:
        return Finished("another object has the name now")
    if archived_already(view, config):
        if view.deleting:
            return Finished("the object is archived and being deleted")
        return replace(progress, step=Step.DELETE, view=view, delete=True)
    if view.deleting:
        if not view.has_finalizer(config.finalizer):
            return Finished("the object is being deleted and waits for others")
        return replace(progress, step=Step.PUT, view=view, delete=False)
    due_s = due_in(view, config, moment.wall, moment.rank)
    if hastened(view, config, due_s, moment.owners_due_s) > 0:
        return Finished("the object is not to be archived now")
    return replace(progress, step=Step.PUT, view=view, delete=True)


def _verified(progress: Progress, found: ReadBack, moment: Moment) -> Progress | Retry:
    assert progress.view is not None, "a record is verified after the object was read"
    wanted = ReadBack(progress.digest, progress.view.resource_version)
    if found == wanted:
        return replace(progress, step=Step.RELEASE, failures=0, failing_since=None)
    message = (
        f"the archive holds digest {found.digest} of resourceVersion {found.resource_version}, put were "
        f"{wanted.digest} of {wanted.resource_version}"
    )
    return _again(progress, moment, message, condition=True, alert=True)


def _unavailable(progress: Progress, moment: Moment, message: str, archive: bool) -> Progress | Retry:
    since = moment.now if progress.failing_since is None else progress.failing_since
    deleting = progress.view is not None and progress.view.deleting
    config = moment.config
    lets_go = archive and deleting and config.archive_on_unavailable is OnUnavailable.RELEASE
    if lets_go and moment.now - since >= config.release_after:
        return replace(progress, step=Step.RELEASE, digest="", failing_since=since)
    return _again(progress, moment, message, condition=archive)


def _again(
    progress: Progress,
    moment: Moment,
    message: str,
    cap_s: float = RETRY_CAP_S,
    *,
    condition: bool = False,
    alert: bool = False,
) -> Retry:
    since = moment.now if progress.failing_since is None else progress.failing_since
    # the version stays, so that an outage knows whether a user waits for the deletion
    after = replace(progress, step=Step.READ, failures=progress.failures + 1, failing_since=since, digest="")
    return Retry(after, message, cap_s, condition, alert)
