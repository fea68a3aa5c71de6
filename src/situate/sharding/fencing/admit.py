"""Decide whether a write of an object is admitted: one pure function of the stored object and the request.

The checks of clients and the policy for API servers (`situate.sharding.fencing.admission_policy`) follow `admit`; a
test compares the policy with it. `admit` judges only the fenced fields. All other fields are free for any client, see
the rules of fencing in docs/spec/sharding.md. The supervisor must wait until the previous holder has released the
object: `admit` cannot check that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Final

from situate.sharding.model.field_paths import Content, FieldPaths
from situate.sharding.model.names import (
    ASSIGNED_AT,
    DRAIN,
    EPOCH,
    EXECUTOR,
    EXECUTOR_UID,
    FINALIZER,
    LOSSES,
    REVOKED,
    TERM,
    WHY,
)

NOTES: Final = (ASSIGNED_AT, WHY, REVOKED, LOSSES)
"""Annotations that describe an assignment but are not part of its identity."""
NUMBER: Final = "[0-9]{1,18}"
"""A regular expression for epochs and terms. Every match fits in 64 bits."""
TIME: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt]"
"""A regular expression for the beginning of a time. Any other value of the completion field is a mistake: it
completes nothing, and its author may correct it."""


class Role(Enum):
    """The role of a writer for the objects."""

    SUPERVISOR = "supervisor"
    EXECUTOR = "executor"
    OTHER = "other"
    """Users, and all other controllers."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The client of a request, as the API server authenticated it."""

    role: Role
    pod_uid: str = ""
    """UID of the Pod to which the credentials are bound; empty if they are not bound to a Pod."""


class Refusal(StrEnum):
    """Why a write is refused. The policy has the same texts."""

    EPOCH = "the write was made under another epoch than the stored one: read the object again"
    FINAL = "the object is completed, and its status is final"
    NOT_HOLDER = "only the incarnation to which the object is assigned may write its status"
    NOT_RELEASED = (
        "an executor may change an assignment only to release its own uncompleted object, by removing executor, "
        "incarnation, label and drain request together"
    )
    NOT_SUPERVISOR = "only the supervisor changes an assignment: leave executor, label, epoch, term and notes unchanged"
    STEP = "an assignment or a revocation must write the stored epoch plus one"
    HALF = "executor and incarnation are assigned together, or removed together"
    AGAIN = "a completed object is not assigned again"
    OLD_TERM = "the term of the write is older than the stored term"
    STALE_LEADER = "the term of the write is older than the leader's term"


@dataclass(frozen=True, slots=True)
class Fence:
    """Paths of the fenced fields of a resource."""

    paths: FieldPaths = field(default_factory=FieldPaths)
    finalizer: str = FINALIZER


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """A write as the server sees it: the client, and the new object."""

    writer: Writer
    object: Content
    subresource: str = ""
    epoch: int | None = None
    """The stored epoch that the writer expects, as tested by its patch; None: the patch has no test."""
    leader_term: int = 0
    """The current term of the leader, from its Lease."""


@dataclass(frozen=True, slots=True)
class FencedFields:
    """The fields of one object that fencing judges. Absent and empty are equal."""

    executor: Any
    executor_uid: str
    epoch: int
    """-1 if it cannot be read."""
    term: int
    """-1 if it cannot be read."""
    label: str
    drain: str
    notes: tuple[str, ...]
    epoch_text: str
    term_text: str
    completed_at: Any
    successful: Any
    status: Mapping[str, Any]
    has_finalizer: bool

    @property
    def completed(self) -> bool:
        return isinstance(self.completed_at, str) and re.match(TIME, self.completed_at) is not None


def admit(stored: Content | None, request: WriteRequest, fence: Fence) -> Refusal | None:
    """Return why the write is refused, or None to accept it. `stored` is None if the request creates the object.

    If several reasons apply, the result is the first in the order of `Refusal`.
    """
    before, after = fenced_fields(stored or {}, fence), fenced_fields(request.object, fence)
    if request.epoch is not None and request.epoch != before.epoch:
        return Refusal.EPOCH
    return _check_status_write(before, after, request) or _check_assignment_write(before, after, request)


def fenced_fields(obj: Content, fence: Fence) -> FencedFields:
    """Return the fenced fields of an object. A field of a wrong type stays as it is, and is compared as such."""
    metadata = _mapping(obj.get("metadata"))
    annotations, labels = _mapping(metadata.get("annotations")), _mapping(metadata.get("labels"))
    status = _mapping(obj.get("status"))
    epoch, term = str(annotations.get(EPOCH, "")), str(annotations.get(TERM, ""))
    finalizers = metadata.get("finalizers")
    return FencedFields(
        executor=_value_at(obj, fence.paths.assigned_to_path),
        executor_uid=str(annotations.get(EXECUTOR_UID, "")),
        epoch=_number(epoch),
        term=_number(term),
        label=str(labels.get(EXECUTOR, "")),
        drain=str(annotations.get(DRAIN, "")),
        notes=tuple(str(annotations.get(name, "")) for name in NOTES),
        epoch_text=epoch,
        term_text=term,
        completed_at=_value_at(obj, fence.paths.completed_at_path),
        successful=_value_at(obj, fence.paths.successful_path),
        status=status,
        has_finalizer=isinstance(finalizers, list) and fence.finalizer in finalizers,
    )


def _check_status_write(before: FencedFields, after: FencedFields, request: WriteRequest) -> Refusal | None:
    role = request.writer.role
    if before.completed and not _is_status_unchanged(before, after, conditions_free=role is Role.SUPERVISOR):
        return Refusal.FINAL
    writes = request.subresource == "status" or before.status != after.status
    if role is Role.EXECUTOR and writes and not _is_holder(before, request.writer):
        return Refusal.NOT_HOLDER
    return None


def _is_status_unchanged(before: FencedFields, after: FencedFields, *, conditions_free: bool) -> bool:
    """Return whether a completed object's status stays unchanged. A supervisor may still write the conditions."""
    if (before.completed_at, before.successful) != (after.completed_at, after.successful):
        return False
    free = {"conditions"} if conditions_free else set()
    kept = [{key: value for key, value in each.status.items() if key not in free} for each in (before, after)]
    return kept[0] == kept[1]


def _is_holder(before: FencedFields, writer: Writer) -> bool:
    """Return whether the writer is the incarnation that holds the object, and may still write."""
    return writer.pod_uid != "" and before.executor_uid == writer.pod_uid and not before.completed


def _check_assignment_write(before: FencedFields, after: FencedFields, request: WriteRequest) -> Refusal | None:
    core_kept = _assignment_core(before) == _assignment_core(after)
    kept = core_kept and (before.label, before.notes, before.term_text) == (after.label, after.notes, after.term_text)
    match request.writer.role:
        case Role.OTHER:
            return None if kept else Refusal.NOT_SUPERVISOR
        case Role.EXECUTOR:
            return None if kept or _is_release(before, after, request.writer) else Refusal.NOT_RELEASED
        case Role.SUPERVISOR:
            if not core_kept and (refusal := _check_reassignment(before, after)):
                return refusal
            if after.term < before.term:
                return Refusal.OLD_TERM
            acts = not kept or (before.has_finalizer and not after.has_finalizer)
            return Refusal.STALE_LEADER if acts and after.term < request.leader_term else None


def _assignment_core(each: FencedFields) -> tuple[Any, str, str]:
    return each.executor, each.executor_uid, each.epoch_text


def _check_reassignment(before: FencedFields, after: FencedFields) -> Refusal | None:
    """Check an assignment or a revoke."""
    if before.epoch < 0 or after.epoch != before.epoch + 1:
        return Refusal.STEP
    if (after.executor == "") != (after.executor_uid == ""):
        return Refusal.HALF
    return Refusal.AGAIN if after.executor != "" and before.completed else None


def _is_release(before: FencedFields, after: FencedFields, writer: Writer) -> bool:
    given_up = (after.executor, after.executor_uid, after.label, after.drain) == ("", "", "", "")
    rest = (before.epoch_text, before.term_text, before.notes) == (after.epoch_text, after.term_text, after.notes)
    return _is_holder(before, writer) and given_up and rest


def _number(text: str) -> int:
    if text == "":
        return 0
    return int(text) if re.fullmatch(NUMBER, text) else -1


def _value_at(obj: Content, path: str) -> Any:
    """Return the value at a path; the empty text if it is absent or null."""
    found: Any = obj
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return "" if found is None else found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
