"""The view of one object that decisions are made on, and the marks that an assignment leaves on it.

Everything is hostile until it is parsed here. A field that fencing depends on and that cannot be read is a *fault*: the
object is not placed until somebody corrects it, for a wrong guess could give an epoch out twice. Of what only advises,
an unreadable value counts as absent and is an *oddity*. Who may make which change is left to `admit`, when to make
one to `decide`.
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
from situate.sharding.model.field_paths import Content, ObjectAdapter, UnreadableField, unreadable
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
"""Of an epoch and of a term: what any language can read, and the policy's expression too."""
_MOST_LOSSES: Final = 1000
_NO_CHANGES: Final[Mapping[str, str | None]] = MappingProxyType({})
_T = TypeVar("_T")
_moment = lru_cache(maxsize=4096)(parse_time)
"""Many objects share a second: each is read once, and kept once."""


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """The holder is asked to stop and release the object."""

    epoch: int
    """The assignment that is to end: under a later one the request is void."""
    deadline: datetime
    """When it will be revoked, by the supervisor's clock; informs the holder and whoever leads next."""
    cause: str

    def __str__(self) -> str:
        return f"{self.epoch} {micro_time(self.deadline)} {self.cause}"


@dataclass(frozen=True, slots=True)
class Revocation:
    """The object was taken from a holder that had not agreed."""

    epoch: int
    """The one that the revocation made, under which nobody writes."""
    cause: str
    executor_uid: str
    """Empty if the object did not say."""
    executor: str
    """Empty if the object did not say."""

    def __str__(self) -> str:
        return f"{self.epoch} {self.cause} {self.executor_uid} {self.executor}"


@dataclass(frozen=True, slots=True)
class Holder:
    """Whom an object is assigned to: an executor, and one incarnation of it."""

    executor: str
    uid: str
    """Empty if the object does not say."""


Source: TypeAlias = Content | bytes
"""An object as plain data, or as JSON, which takes an eighth of the memory."""


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
    """Of the controlling owner; empty if there is none."""

    executor: str = ""
    """Empty while unassigned."""
    executor_uid: str = ""
    epoch: int = 0
    term: int = 0
    assigned_at: datetime | None = None
    why: str = ""
    drain: DrainRequest | None = None
    """Only one that is about the present epoch."""
    revoked: Revocation | None = None
    """Only one that made the present epoch."""
    losses: tuple[datetime, ...] = ()

    completed_at: datetime | None = None
    successful: bool | None = None
    reason: str = ""
    held: bool = False
    """Never archived by age."""
    migratable: bool = True
    priority: str | None = None
    """As the annotation has it; None if there is none."""
    executor_selector: str = ""
    """As the annotation has it; empty if there is none."""
    archived: str = ""
    """Digest of the verified record; empty if there is none."""

    faults: tuple[str, ...] = ()
    oddities: tuple[str, ...] = ()
    source: Source = msgspec.field(default_factory=dict)
    """Not compared: the other fields say what it says."""

    def __eq__(self, other: object) -> bool:
        return type(other) is ObjectView and _said(self) == _said(other)

    def __hash__(self) -> int:
        return hash(_said(self))

    @property
    def content(self) -> Content:
        """The whole object, for strategies, filters and patches. Ask once: it may have to be read from JSON."""
        return content_of(self.source)

    @property
    def labels(self) -> Mapping[str, str]:
        """For users' rules; read from `content`."""
        return _texts(_mapping(self.content.get("metadata")).get("labels"))

    @property
    def annotations(self) -> Mapping[str, str]:
        """For users' rules; read from `content`."""
        return _texts(_mapping(self.content.get("metadata")).get("annotations"))

    @property
    def completed(self) -> bool:
        return self.completed_at is not None

    @property
    def holder(self) -> Holder | None:
        """Who may be at work on it; None: nobody, as far as the object says.

        A release removes executor and incarnation together. Of an object where one of them is left, somebody else has
        changed the assignment, and its incarnation may not know yet.
        """
        return Holder(self.executor, self.executor_uid) if self.executor or self.executor_uid else None

    def has_finalizer(self, finalizer: str) -> bool:
        return finalizer in self.finalizers


_said = attrgetter(*ObjectView.__struct_fields__[:-1])


def content_of(source: Source) -> Content:
    """Plain data; from JSON a new copy each time."""
    return msgspec.json.decode(source) if isinstance(source, bytes) else source


def view_of(content: Content, adapter: ObjectAdapter, source: Source | None = None) -> ObjectView:
    """What the object says; never raises, whatever it is. `source`: what to keep of it instead of `content`."""
    reading = _Reading(content)
    annotations, metadata = reading.annotations, reading.metadata
    epoch = reading.number(EPOCH)
    drain = reading.advice(DRAIN, _drain_request, "an epoch, a time and a cause")
    revoked = reading.advice(REVOKED, _revocation, "an epoch, a cause, a UID and the id of an executor")
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
        assigned_at=reading.advice(ASSIGNED_AT, _moment, "a time such as 2024-01-31T12:00:00Z"),
        why=annotations.get(WHY, ""),
        drain=drain if drain is not None and drain.epoch == epoch else None,
        revoked=revoked if revoked is not None and revoked.epoch == epoch else None,
        losses=reading.advice(LOSSES, _losses, "times joined by commas") or (),
        completed_at=reading.field(adapter.completed_at),
        successful=reading.lenient_field(adapter.successful),
        reason=reading.text("status.reason", _mapping(content.get("status")).get("reason")),
        held=reading.advice(ARCHIVE_HOLD, _boolean, "true and false") is True,
        migratable=reading.advice(MIGRATABLE, _boolean, "true and false") is not False,
        priority=annotations.get(PRIORITY),
        executor_selector=annotations.get(EXECUTOR_SELECTOR, ""),
        archived=annotations.get(ARCHIVED, ""),
        faults=tuple(reading.faults),
        oddities=tuple(reading.oddities),
        source=content if source is None else source,
    )


def unpacked(view: ObjectView) -> ObjectView:
    """The same, so that asking for its content often costs nothing."""
    return msgspec.structs.replace(view, source=view.content) if isinstance(view.source, bytes) else view


def executor_label(executor: str) -> str:
    """What stands for an executor's id in a label: the id where a label may hold it, else 32 hexadecimal digits."""
    if executor and valid_label_value(executor):
        return executor
    return hashlib.sha256(executor.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Placement:
    """What one patch writes to place an object."""

    holder: Holder
    term: int
    assigned_at: datetime
    why: str
    finalizer: str | None
    """Added with it; None while no archive is configured."""
    losses: tuple[datetime, ...] = ()
    """All that still count, for the reassign limit."""


def placed(view: ObjectView, adapter: ObjectAdapter, placement: Placement) -> Content:
    """The object with everything that an assignment is: finalizer, executor, incarnation, the next epoch, term."""
    finalizers = view.finalizers
    if placement.finalizer is not None and placement.finalizer not in finalizers:
        finalizers = (*finalizers, placement.finalizer)
    assigned = adapter.assign_to(view.content, placement.holder.executor)
    return _with_metadata(
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


def released(content: Content, adapter: ObjectAdapter) -> Content:
    """The object given up by its holder: unassigned, the epoch as it is, no drain request (the drain's ack)."""
    return _with_metadata(adapter.assign_to(content, None), {EXECUTOR_UID: None, DRAIN: None}, {EXECUTOR: None})


def revoked(
    view: ObjectView, adapter: ObjectAdapter, term: int, cause: str, losses: tuple[datetime, ...] = ()
) -> Content:
    """The object taken from its holder: unassigned, under the next epoch, with a note of who may still be running."""
    note = Revocation(view.epoch + 1, cause, view.executor_uid, view.executor)
    annotations = {
        EPOCH: str(note.epoch),
        EXECUTOR_UID: None,
        TERM: str(term),
        DRAIN: None,
        REVOKED: str(note),
        LOSSES: _losses_text(losses),
    }
    return _with_metadata(adapter.assign_to(view.content, None), annotations, {EXECUTOR: None})


def asked_to_drain(view: ObjectView, request: DrainRequest) -> Content:
    """The object with a drain request."""
    return _with_metadata(view.content, {DRAIN: str(request)})


def without_finalizer(view: ObjectView, finalizer: str, term: int, digest: str = "") -> Content:
    """The object that our finalizer holds no longer; `digest` says which record in the archive is its copy.

    The term is written with it, so that the policy can refuse a supervisor that leads no longer.
    """
    left = tuple(each for each in view.finalizers if each != finalizer)
    annotations = {TERM: str(term), **({ARCHIVED: digest} if digest else {})}
    return _with_metadata(view.content, annotations, finalizers=left)


def finished(view: ObjectView, adapter: ObjectAdapter, now: datetime, successful: bool, reason: str) -> Content:
    """The object completed by the supervisor; all of the change lies in its status, with the default paths."""
    content = adapter.complete(view.content, now, successful)
    return {**content, "status": {**_mapping(content.get("status")), "reason": reason}}


def _with_metadata(
    content: Content,
    annotations: Mapping[str, str | None],
    labels: Mapping[str, str | None] = _NO_CHANGES,
    finalizers: Iterable[str] | None = None,
) -> Content:
    """A copy with these annotations and labels, of which None removes one, and these finalizers; None leaves them."""
    metadata = dict(_mapping(content.get("metadata")))
    if annotations:
        metadata["annotations"] = _changed(metadata.get("annotations"), annotations)
    if labels:
        metadata["labels"] = _changed(metadata.get("labels"), labels)
    if finalizers is not None:
        metadata["finalizers"] = list(finalizers)
    for key in ("annotations", "labels", "finalizers"):
        if not metadata.get(key):
            metadata.pop(key, None)
    return {**content, "metadata": metadata}


def _changed(old: object, changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**_mapping(old), **changes}.items() if value is not None}


class _Reading:
    """Reads one object and collects what cannot be read."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self.metadata = _mapping(content.get("metadata"))
        self.annotations = _texts(self.metadata.get("annotations"))
        self.faults: list[str] = []
        self.oddities: list[str] = []

    def number(self, annotation: str) -> int:
        """0 if absent, and with a fault if it is no number."""
        text = self.annotations.get(annotation)
        if text is None:
            return 0
        number = _number(text)
        if number is None:
            allowed = f"whole numbers from 0 to {LARGEST}"
            self.faults.append(str(unreadable(self._content, f"annotation {annotation}", text, allowed)))
        return number or 0

    def advice(self, annotation: str, parse: Callable[[str], _T], allowed: str) -> _T | None:
        text = self.annotations.get(annotation)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError:
            self.oddities.append(str(unreadable(self._content, f"annotation {annotation}", text, allowed)))
            return None

    def field(self, read: Callable[[Content], _T | None]) -> _T | None:
        return self._asked(read, self.faults)

    def text(self, field: str, value: object) -> str:
        """Empty if absent, and with an oddity if it is none."""
        if value is not None and not isinstance(value, str):
            self.oddities.append(str(unreadable(self._content, field, value, "a text")))
        return _text(value)

    def lenient_field(self, read: Callable[[Content], _T | None]) -> _T | None:
        return self._asked(read, self.oddities)

    def _asked(self, read: Callable[[Content], _T | None], told: list[str]) -> _T | None:
        try:
            return read(self._content)
        except UnreadableField as error:
            told.append(str(error))
        except Exception as error:  # an adapter of the user's may raise anything, and must not hide the object
            told.append(f"the adapter's {getattr(read, '__name__', 'reading')} has raised {error!r:.200}; correct it")
        return None


def _number(text: str) -> int | None:
    # the length is checked first: an annotation may hold 256 KiB of digits
    if len(text) <= 18 and text.isascii() and text.isdecimal():
        return int(text)
    return None


def _drain_request(text: str) -> DrainRequest:
    epoch, deadline, cause = _words(text, 3)
    return DrainRequest(_epoch(epoch), parse_time(deadline), cause)


def _revocation(text: str) -> Revocation:
    epoch, cause, uid, executor = _words(text, 4)
    return Revocation(_epoch(epoch), cause, uid, executor)


def _words(text: str, count: int) -> list[str]:
    words = text.split(" ")
    if len(words) != count:
        raise ValueError
    return words


def _epoch(text: str) -> int:
    number = _number(text)
    if number is None:
        raise ValueError
    return number


def _losses_text(losses: tuple[datetime, ...]) -> str | None:
    return ",".join(map(rfc3339, losses)) or None


def _losses(text: str) -> tuple[datetime, ...]:
    return tuple(sorted(map(parse_time, text.split(",")[-_MOST_LOSSES:])))


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


def _time_or_none(value: object) -> datetime | None:
    """A time that the server sets."""
    try:
        return _moment(value) if isinstance(value, str) else None
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
    if type(value) is dict:  # nearly always, and quicker to tell
        return value
    return value if isinstance(value, Mapping) else {}


def _texts(value: object) -> Mapping[str, str]:
    if value is None:
        return NO_LABELS
    return {key: each for key, each in _mapping(value).items() if isinstance(each, str)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
