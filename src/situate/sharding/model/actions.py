"""What a supervisor may order for one object, each a value, and the one write that it is.

Each write lands on the version of the object that was decided on, or not at all. Sending them is left to the shell,
and what an archiving means, step by step, to `archive_steps`.
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
    asked_to_drain,
    finished,
    placed,
    revoked,
    unpacked,
    without_finalizer,
)
from situate.sharding.model.patches import Operations, guarded_patch


@dataclass(frozen=True, slots=True)
class Assign:
    """Give the object to an executor: finalizer, assignment, incarnation, epoch and term in one write."""

    placement: Placement


@dataclass(frozen=True, slots=True)
class RequestDrain:
    """Ask the holder to stop and release the object."""

    request: DrainRequest


@dataclass(frozen=True, slots=True)
class Revoke:
    """Take the object from its holder without an ack: the next epoch, unassigned."""

    term: int
    cause: str
    losses: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True)
class Complete:
    """End the object as failed."""

    now: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let the object go without an archive."""

    finalizer: str
    term: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object that has this UID, and no successor of its name."""

    uid: str


@dataclass(frozen=True, slots=True)
class Archive:
    """Begin to archive the object, or go on; in a queue of its own."""

    delete: bool
    """Whether it is deleted afterwards: not if somebody else has asked for that."""


@dataclass(frozen=True, slots=True)
class TellCompleted:
    """Tell the strategy that the object's place is free. No write."""


Action: TypeAlias = Assign | RequestDrain | Revoke | Complete | RemoveFinalizer | Delete | Archive | TellCompleted
Patching: TypeAlias = Assign | RequestDrain | Revoke | Complete | RemoveFinalizer


@dataclass(frozen=True, slots=True)
class Write:
    """A JSON patch of the object."""

    operations: Operations
    """Empty if the object is so already."""
    subresource: str = ""


def write_of(action: Patching, view: ObjectView, adapter: ObjectAdapter) -> Write:
    """The write that an action is. The status is a subresource of its own; with the default paths, completing is all
    of that. Of a kind without the subresource the shell sends it to the object."""
    view = unpacked(view)
    match action:
        case Assign(placement):
            after = placed(view, adapter, placement)
        case RequestDrain(request):
            after = asked_to_drain(view, request)
        case Revoke(term, cause, losses):
            after = revoked(view, adapter, term, cause, losses)
        case RemoveFinalizer(finalizer, term):
            after = without_finalizer(view, finalizer, term)
        case Complete(now, reason):
            after = finished(view, adapter, now, False, reason)
    return Write(guarded_patch(view.content, after), "status" if isinstance(action, Complete) else "")
