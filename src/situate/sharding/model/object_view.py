"""Parse one object into the view that decisions use, and write the marks of an assignment on it.

All input is untrusted until it is parsed here. An unreadable field on which fencing depends is a *fault*. An object
with a fault is not assigned until a user corrects the field, because a wrong guess could give out an epoch twice. An
unreadable value of an advisory field counts as absent and is an *oddity*. `admit` defines the allowed changes, `decide`
their time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from situate.objects.kinds.meta import NO_LABELS
from situate.objects.selection.label_selectors import valid_label_value
from situate.objects.values.timestamps import BadTime, micro_time, parse_time, rfc3339
from situate.sharding.model.field_paths import Content, ObjectAdapter, UnreadableField, unreadable_field_error
from situate.sharding.model.names import (
    ARCHIVE_HOLD,
    ARCHIVED,
    ASSIGNED_AT,
    DRAIN,
    EPOCH,
    EXECUTOR,
    EXECUTOR_SELECTOR,
    EXECUTOR_UID,
    LOSSES,
    MIGRATABLE,
    PRIORITY,
    REVOKED,
    TERM,
    WHY,
)

LARGEST: Final = 10**18 - 1
"""Largest epoch and term: every language, and the expression of the admission policy, can read this number."""
_MOST_LOSSES: Final = 1000
_NO_CHANGES: Final[Mapping[str, str | None]] = MappingProxyType({})
_T = TypeVar("_T")
_parse_time_cached = lru_cache(maxsize=4096)(parse_time)
"""Parses a time. Many objects share the same second, so each time is parsed and stored only once."""


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """A request to the holder to stop and release the object."""

    epoch: int
    """The epoch of the assignment that is to end; under a later epoch the request is void."""
    deadline: datetime
    """When the object will be revoked, by the supervisor's clock. Information for the holder and the next leader."""
    cause: str

    def __str__(self) -> str:
        return f"{self.epoch} {micro_time(self.deadline)} {self.cause}"


@dataclass(frozen=True, slots=True)
class Revocation:
    """A record that the object was taken from its holder without an ack."""

    epoch: int
    """The epoch that the revocation made. No executor holds it."""
    cause: str
    executor_uid: str
    """Empty if the object did not name the incarnation."""
    executor: str
    """Empty if the object did not name the executor."""

    def __str__(self) -> str:
        return f"{self.epoch} {self.cause} {self.executor_uid} {self.executor}"


@dataclass(frozen=True, slots=True)
class Holder:
    """The executor, and its incarnation, to which an object is assigned."""

    executor: str
    uid: str
    """Empty if the object does not name the incarnation."""


Source: TypeAlias = Content | bytes
"""An object as plain data, or as JSON, which needs an eighth of the memory."""


class ObjectView(msgspec.Struct, frozen=True, eq=False):
    """One object at one resourceVersion."""

    uid: str
    resource_version: str
    namespace: str = ""
    name: str = ""
    created_at: datetime | None = None
    deleting: bool = False
    finalizers: tuple[str, ...] = ()
    owner_uid: str = ""
    """UID of the controlling owner; empty if there is none."""

    executor: str = ""
    """Empty while unassigned."""
    executor_uid: str = ""
    epoch: int = 0
    term: int = 0
    assigned_at: datetime | None = None
    why: str = ""
    drain: DrainRequest | None = None
    """Only a request for the present epoch."""
    revoked: Revocation | None = None
    """Only a revocation that made the present epoch."""
    losses: tuple[datetime, ...] = ()

    completed_at: datetime | None = None
    successful: bool | None = None
    reason: str = ""
    held: bool = False
    """Whether the object is never archived by age."""
    migratable: bool = True
    priority: str | None = None
    """The unparsed value of the annotation; None if absent."""
    executor_selector: str = ""
    """The unparsed value of the annotation; empty if absent."""
    archived: str = ""
    """Digest of the verified record in the archive; empty if there is none."""

    faults: tuple[str, ...] = ()
    oddities: tuple[str, ...] = ()
    source: Source = msgspec.field(default_factory=dict)
    """Not compared, because the other fields hold the same facts."""

    def __eq__(self, other: object) -> bool:
        return type(other) is ObjectView and _view_fields(self) == _view_fields(other)

    def __hash__(self) -> int:
        return hash(_view_fields(self))

    @property
    def content(self) -> Content:
        """Return the whole object, for strategies, filters and patches. May parse JSON: call once."""
        return content_of(self.source)

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the labels for users' rules, read from `content`."""
        return _texts(_mapping(self.content.get("metadata")).get("labels"))

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return the annotations for users' rules, read from `content`."""
        return _texts(_mapping(self.content.get("metadata")).get("annotations"))

    @property
    def completed(self) -> bool:
        return self.completed_at is not None

    @property
    def holder(self) -> Holder | None:
        """Return the holder that the object names, which may be working on it; None if it names none.

        A release removes executor and incarnation together. If only one of them is left, another client changed the
        assignment, and the incarnation may not know yet.
        """
        return Holder(self.executor, self.executor_uid) if self.executor or self.executor_uid else None

    def has_finalizer(self, finalizer: str) -> bool:
        return finalizer in self.finalizers


_view_fields = attrgetter(*ObjectView.__struct_fields__[:-1])


def content_of(source: Source) -> Content:
    """Return the object as plain data; from JSON, a new copy on each call."""
    return msgspec.json.decode(source) if isinstance(source, bytes) else source


def view_of(content: Content, adapter: ObjectAdapter, source: Source | None = None) -> ObjectView:
    """Parse the object into a view; never raises. `source`: stored in the view instead of `content`."""
    reading = _FieldReader(content)
    annotations, metadata = reading.annotations, reading.metadata
    epoch = reading.number(EPOCH)
    drain = reading.optional_annotation(DRAIN, _parse_drain_request, "an epoch, a time and a cause")
    revoked = reading.optional_annotation(
        REVOKED, _parse_revocation, "an epoch, a cause, a UID and the id of an executor"
    )
    return ObjectView(
        uid=_text(metadata.get("uid")),
        resource_version=_text(metadata.get("resourceVersion")),
        namespace=_text(metadata.get("namespace")),
        name=_text(metadata.get("name")),
        created_at=_time_or_none(metadata.get("creationTimestamp")),
        deleting=metadata.get("deletionTimestamp") is not None,
        finalizers=_finalizers(metadata.get("finalizers")),
        owner_uid=_controller_uid(metadata.get("ownerReferences")),
        executor=reading.field(adapter.assigned_to) or "",
        executor_uid=annotations.get(EXECUTOR_UID, ""),
        epoch=epoch,
        term=reading.number(TERM),
        assigned_at=reading.optional_annotation(ASSIGNED_AT, _parse_time_cached, "a time such as 2024-01-31T12:00:00Z"),
        why=annotations.get(WHY, ""),
        drain=drain if drain is not None and drain.epoch == epoch else None,
        revoked=revoked if revoked is not None and revoked.epoch == epoch else None,
        losses=reading.optional_annotation(LOSSES, _parse_losses, "times joined by commas") or (),
        completed_at=reading.field(adapter.completed_at),
        successful=reading.lenient_field(adapter.successful),
        reason=reading.text("status.reason", _mapping(content.get("status")).get("reason")),
        held=reading.optional_annotation(ARCHIVE_HOLD, _parse_boolean, "true and false") is True,
        migratable=reading.optional_annotation(MIGRATABLE, _parse_boolean, "true and false") is not False,
        priority=annotations.get(PRIORITY),
        executor_selector=annotations.get(EXECUTOR_SELECTOR, ""),
        archived=annotations.get(ARCHIVED, ""),
        faults=tuple(reading.faults),
        oddities=tuple(reading.oddities),
        source=content if source is None else source,
    )


def with_parsed_content(view: ObjectView) -> ObjectView:
    """Return the same view with parsed content, so that repeated reads of `content` cost nothing."""
    return msgspec.structs.replace(view, source=view.content) if isinstance(view.source, bytes) else view


def executor_label(executor: str) -> str:
    """Return the label value of an executor's id: the id if valid, else the first 32 hex digits of its SHA-256."""
    if executor and valid_label_value(executor):
        return executor
    return hashlib.sha256(executor.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Placement:
    """The values that one patch writes to assign an object."""

    holder: Holder
    term: int
    assigned_at: datetime
    why: str
    finalizer: str | None
    """The finalizer to add in the same patch; None while no archive is configured."""
    losses: tuple[datetime, ...] = ()
    """All losses that still count for the reassign limit."""


def assigned_content(view: ObjectView, adapter: ObjectAdapter, placement: Placement) -> Content:
    """Return the assigned object: with finalizer, executor, incarnation, the next epoch and term."""
    finalizers = view.finalizers
    if placement.finalizer is not None and placement.finalizer not in finalizers:
        finalizers = (*finalizers, placement.finalizer)
    assigned = adapter.assign_to(view.content, placement.holder.executor)
    return _change_metadata(
        assigned,
        annotations={
            EPOCH: str(view.epoch + 1),
            EXECUTOR_UID: placement.holder.uid,
            TERM: str(placement.term),
            ASSIGNED_AT: rfc3339(placement.assigned_at),
            WHY: placement.why,
            LOSSES: _losses_text(placement.losses),
            DRAIN: None,
            REVOKED: None,
        },
        labels={EXECUTOR: executor_label(placement.holder.executor)},
        finalizers=finalizers,
    )


def released_content(content: Content, adapter: ObjectAdapter) -> Content:
    """Return the object released by its holder (the ack of a drain): unassigned, same epoch, no drain request."""
    return _change_metadata(adapter.assign_to(content, None), {EXECUTOR_UID: None, DRAIN: None}, {EXECUTOR: None})


def revoked_content(
    view: ObjectView, adapter: ObjectAdapter, term: int, cause: str, losses: tuple[datetime, ...] = ()
) -> Content:
    """Return the object revoked from its holder: unassigned, under the next epoch.

    The annotation `REVOKED` records the holder, which may still be running.
    """
    note = Revocation(view.epoch + 1, cause, view.executor_uid, view.executor)
    annotations = {
        EPOCH: str(note.epoch),
        EXECUTOR_UID: None,
        TERM: str(term),
        DRAIN: None,
        REVOKED: str(note),
        LOSSES: _losses_text(losses),
    }
    return _change_metadata(adapter.assign_to(view.content, None), annotations, {EXECUTOR: None})


def drain_requested_content(view: ObjectView, request: DrainRequest) -> Content:
    """Return the object with a drain request."""
    return _change_metadata(view.content, {DRAIN: str(request)})


def content_without_finalizer(view: ObjectView, finalizer: str, term: int, digest: str = "") -> Content:
    """Return the object without our finalizer; `digest` names its record in the archive.

    The term is written in the same patch, so that the admission policy can refuse a supervisor that no longer leads.
    """
    left = tuple(each for each in view.finalizers if each != finalizer)
    annotations = {TERM: str(term), **({ARCHIVED: digest} if digest else {})}
    return _change_metadata(view.content, annotations, finalizers=left)


def completed_content(
    view: ObjectView, adapter: ObjectAdapter, now: datetime, successful: bool, reason: str
) -> Content:
    """Return the object completed by the supervisor; with the default paths, only its status changes."""
    content = adapter.complete(view.content, now, successful)
    return {**content, "status": {**_mapping(content.get("status")), "reason": reason}}


def _change_metadata(
    content: Content,
    annotations: Mapping[str, str | None],
    labels: Mapping[str, str | None] = _NO_CHANGES,
    finalizers: Iterable[str] | None = None,
) -> Content:
    """Return a copy with changed annotations, labels and finalizers.

    An annotation or label with the value None is removed. `finalizers` None leaves the finalizers unchanged.
    """
    metadata = dict(_mapping(content.get("metadata")))
    if annotations:
        metadata["annotations"] = _merge_changes(metadata.get("annotations"), annotations)
    if labels:
        metadata["labels"] = _merge_changes(metadata.get("labels"), labels)
    if finalizers is not None:
        metadata["finalizers"] = list(finalizers)
    for key in ("annotations", "labels", "finalizers"):
        if not metadata.get(key):
            metadata.pop(key, None)
    return {**content, "metadata": metadata}


def _merge_changes(old: object, changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**_mapping(old), **changes}.items() if value is not None}


class _FieldReader:
    """A reader of one object that collects the values that cannot be read."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self.metadata = _mapping(content.get("metadata"))
        self.annotations = _texts(self.metadata.get("annotations"))
        self.faults: list[str] = []
        self.oddities: list[str] = []

    def number(self, annotation: str) -> int:
        """Return the number in an annotation; 0 if absent, and 0 with a fault if it is not a number."""
        text = self.annotations.get(annotation)
        if text is None:
            return 0
        number = _number(text)
        if number is None:
            allowed = f"whole numbers from 0 to {LARGEST}"
            self.faults.append(str(unreadable_field_error(self._content, f"annotation {annotation}", text, allowed)))
        return number or 0

    def optional_annotation(self, annotation: str, parse: Callable[[str], _T], allowed: str) -> _T | None:
        text = self.annotations.get(annotation)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError:
            self.oddities.append(str(unreadable_field_error(self._content, f"annotation {annotation}", text, allowed)))
            return None

    def field(self, read: Callable[[Content], _T | None]) -> _T | None:
        return self._read_field(read, self.faults)

    def text(self, field: str, value: object) -> str:
        """Return the text; empty if absent, and empty with an oddity if the value is not a text."""
        if value is not None and not isinstance(value, str):
            self.oddities.append(str(unreadable_field_error(self._content, field, value, "a text")))
        return _text(value)

    def lenient_field(self, read: Callable[[Content], _T | None]) -> _T | None:
        return self._read_field(read, self.oddities)

    def _read_field(self, read: Callable[[Content], _T | None], told: list[str]) -> _T | None:
        try:
            return read(self._content)
        except UnreadableField as error:
            told.append(str(error))
        except Exception as error:  # a user's adapter may raise any exception; the object must stay visible
            told.append(
                f"the adapter's {getattr(read, '__name__', 'reading')} raised {error!r:.200}; correct the adapter"
            )
        return None


def _number(text: str) -> int | None:
    # the length is checked first: an annotation may hold 256 KiB of digits
    if len(text) <= 18 and text.isascii() and text.isdecimal():
        return int(text)
    return None


def _parse_drain_request(text: str) -> DrainRequest:
    epoch, deadline, cause = _split_words(text, 3)
    return DrainRequest(_parse_epoch(epoch), parse_time(deadline), cause)


def _parse_revocation(text: str) -> Revocation:
    epoch, cause, uid, executor = _split_words(text, 4)
    return Revocation(_parse_epoch(epoch), cause, uid, executor)


def _split_words(text: str, count: int) -> list[str]:
    words = text.split(" ")
    if len(words) != count:
        raise ValueError
    return words


def _parse_epoch(text: str) -> int:
    number = _number(text)
    if number is None:
        raise ValueError
    return number


def _losses_text(losses: tuple[datetime, ...]) -> str | None:
    return ",".join(map(rfc3339, losses)) or None


def _parse_losses(text: str) -> tuple[datetime, ...]:
    return tuple(sorted(map(parse_time, text.split(",")[-_MOST_LOSSES:])))


def _parse_boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


def _time_or_none(value: object) -> datetime | None:
    """Parse a time that the server sets; None if it is not a time."""
    try:
        return _parse_time_cached(value) if isinstance(value, str) else None
    except BadTime:
        return None


def _finalizers(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _controller_uid(value: object) -> str:
    if not isinstance(value, list):
        return ""
    for owner in value:
        if isinstance(owner, Mapping) and owner.get("controller") is True:
            return _text(owner.get("uid"))
    return ""


def _mapping(value: object) -> Mapping[str, Any]:
    if type(value) is dict:  # the usual case, and a faster check
        return value
    return value if isinstance(value, Mapping) else {}


def _texts(value: object) -> Mapping[str, str]:
    if value is None:
        return NO_LABELS
    return {key: each for key, each in _mapping(value).items() if isinstance(each, str)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
