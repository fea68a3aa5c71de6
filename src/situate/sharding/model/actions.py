"""Define the actions that a supervisor may take on one object, and the write of each action.

The API server accepts a write only for the version of the object that the decision was made on. The shell sends the
writes. `archive_steps` defines the steps of an archiving.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from situate.sharding.model.field_paths import ObjectAdapter
from situate.sharding.model.object_view import (
    DrainRequest,
    ObjectView,
    Placement,
    assigned_content,
    completed_content,
    content_without_finalizer,
    drain_requested_content,
    revoked_content,
    with_parsed_content,
)
from situate.sharding.model.patches import Operations, guarded_patch


@dataclass(frozen=True, slots=True)
class Assign:
    """An assignment to an executor: finalizer, executor id, incarnation, epoch and term in one write."""

    placement: Placement


@dataclass(frozen=True, slots=True)
class RequestDrain:
    """A request to the holder to stop and release the object."""

    request: DrainRequest


@dataclass(frozen=True, slots=True)
class Revoke:
    """A revoke, without an ack of the holder: the object is unassigned, under the next epoch."""

    term: int
    cause: str
    losses: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True)
class Complete:
    """The completion of the object as failed."""

    now: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """The removal of our finalizer without archiving the object."""

    finalizer: str
    term: int


@dataclass(frozen=True, slots=True)
class Delete:
    """The deletion of the object with this UID; a later object of the same name stays."""

    uid: str


@dataclass(frozen=True, slots=True)
class Archive:
    """The start or continuation of an archiving, in a queue of its own."""

    delete: bool
    """Whether to delete the object afterwards. False if a client already deletes it."""


@dataclass(frozen=True, slots=True)
class ReportCompleted:
    """A report to the strategy that the object is completed and no longer counts. No write."""


Action: TypeAlias = Assign | RequestDrain | Revoke | Complete | RemoveFinalizer | Delete | Archive | ReportCompleted
PatchAction: TypeAlias = Assign | RequestDrain | Revoke | Complete | RemoveFinalizer


@dataclass(frozen=True, slots=True)
class Write:
    """A JSON patch of the object."""

    operations: Operations
    """Empty if the object already has this content."""
    subresource: str = ""


def write_of(action: PatchAction, view: ObjectView, adapter: ObjectAdapter) -> Write:
    """Return the write of an action.

    The status is a subresource. With the default paths, `Complete` changes only the status. For a kind without the
    subresource, the shell sends the write to the object itself.
    """
    view = with_parsed_content(view)
    match action:
        case Assign(placement):
            after = assigned_content(view, adapter, placement)
        case RequestDrain(request):
            after = drain_requested_content(view, request)
        case Revoke(term, cause, losses):
            after = revoked_content(view, adapter, term, cause, losses)
        case RemoveFinalizer(finalizer, term):
            after = content_without_finalizer(view, finalizer, term)
        case Complete(now, reason):
            after = completed_content(view, adapter, now, False, reason)
    return Write(guarded_patch(view.content, after), "status" if isinstance(action, Complete) else "")
