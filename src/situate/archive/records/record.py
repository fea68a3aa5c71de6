"""A record: one archived object with its identity, its completion, and all its bytes under a digest.

A record is made from an object of the API (`record_of`), or read from a store's bytes (`parse_record`). Both check that
subject, object and digest agree, so that a read detects a record that was edited by hand. `situate.sharding` decides
which objects are archived, and when. The stores hold the records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from situate.archive.records.canonical_json import canonical_json, digest, mapping_at, read_json
from situate.objects.values.timestamps import BadTime, micro_time, parse_time

API_VERSION: Final = "archive.situate.dev/v1"
KIND: Final = "Record"

LONGEST: Final = 253
"""Maximum bytes of a name, of a UID and of other indexed texts: the length limit of names in Kubernetes."""
LONGEST_LABEL_KEY: Final = 317
"""Maximum bytes: a DNS name of 253, a slash, a name of 63."""


class BadRecord(ValueError):
    """An invalid record; the message names the record, the field, the value and the allowed values."""

    def __init__(self, record: str, path: str, problem: str) -> None:
        """`record`: the store's name for it, such as a file. `path`: such as `subject.name`; empty for the record."""
        super().__init__(f"the archive's record {record} cannot be used: {path + ': ' if path else ''}{problem}")
        self.record = record
        self.path = path
        self.problem = problem


@dataclass(frozen=True, slots=True, order=True)
class GroupKind:
    """A kind of object in all its versions, with group and kind as in `situate.objects.resources`."""

    group: str
    """Empty for the core group."""
    kind: str

    def __str__(self) -> str:
        """The form in messages: `Report.batch.example.com`, `Pod`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


@dataclass(frozen=True, slots=True)
class ByUid:
    """The key of the one record of an object."""

    kind: GroupKind
    uid: str
    place: tuple[str, str] | None = None
    """Namespace and name of the object. None: unknown; stores that sort by them must then search everywhere."""

    def __str__(self) -> str:
        name = "" if self.place is None else f" {'/'.join(filter(None, self.place))}"
        return f"{self.kind}{name} with UID {self.uid}"


@dataclass(frozen=True, slots=True)
class ByName:
    """The key of the newest record of a name: by `archived_at`, then by UID."""

    kind: GroupKind
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(filter(None, (self.namespace, self.name)))}"


@dataclass(frozen=True, slots=True)
class Subject:
    """The identity of the object in a record. All fields except the resource are also in the object, and must agree."""

    group: str
    version: str
    kind: str
    resource: str
    """The plural, such as `reports`."""
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str
    uid: str
    resource_version: str
    owner_uid: str
    """UID of the controlling owner; empty if there is none."""
    labels: Mapping[str, str] = field(hash=False)

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    @property
    def key(self) -> ByUid:
        return ByUid(self.group_kind, self.uid, (self.namespace, self.name))


@dataclass(frozen=True, slots=True)
class Record:
    """One archived object. Only `record_of` and `parse_record` make it: they check that its parts agree."""

    subject: Subject
    completed_at: datetime | None
    """None if the object was deleted before it completed."""
    successful: bool | None
    """None if the object was deleted before it completed."""
    reason: str
    archived_at: datetime
    term: int
    """Term of the supervisor that archived the object."""
    digest: str
    """Digest of `raw`."""
    raw: bytes
    """Canonical JSON of the object as the API returned it."""

    @property
    def object(self) -> dict[str, Any]:
        """The object as plain data: a new copy at each call."""
        content: dict[str, Any] = read_json(self.raw)
        return content

    def replaces(self, stored: Record) -> bool:
        """Return whether this record may replace a stored one of the same UID: not if that holds a newer version.

        A put may be abandoned and arrive late, or come from a paused supervisor. It must not undo a later put. Versions
        that are not integers have no order, and the later put wins.
        """
        mine, theirs = version_number(self.subject.resource_version), version_number(stored.subject.resource_version)
        return mine is None or theirs is None or mine >= theirs


def version_number(resource_version: str) -> int | None:
    """Return the resource version as an integer (KEP-5504); None if it is not one, or is beyond 63 bits."""
    if not (resource_version.isascii() and resource_version.isdigit() and len(resource_version) <= 19):
        return None
    number = int(resource_version)
    return number if number < 1 << 63 else None


def record_of(
    content: Mapping[str, Any],
    *,
    resource: str,
    completed_at: datetime | None,
    successful: bool | None,
    reason: str,
    archived_at: datetime,
    term: int,
) -> Record:
    """Return the record of an object as read from the API. `BadRecord` if it can never be a record."""
    metadata = content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    where = f"of {content.get('kind', 'object')!s:.80} {name!s:.300}"
    try:
        raw = canonical_json(content)
    except ValueError as error:
        raise BadRecord(where, "object", f"{error}") from error
    subject = _subject_of(where, content, resource)
    _text(where, "reason", reason)
    _parse_term(where, term)
    return Record(subject, completed_at, successful, reason, archived_at, term, digest(raw), raw)


def encode_record(record: Record) -> bytes:
    """Return the bytes of a record that every store holds or exports: canonical JSON in UTF-8."""
    subject = record.subject
    head = canonical_json(
        {
            "apiVersion": API_VERSION,
            "archivedAt": micro_time(record.archived_at),
            "completedAt": None if record.completed_at is None else micro_time(record.completed_at),
            "digest": record.digest,
            "kind": KIND,
        }
    )
    tail = canonical_json(
        {
            "reason": record.reason,
            "subject": {
                "group": subject.group,
                "version": subject.version,
                "kind": subject.kind,
                "resource": subject.resource,
                "namespace": subject.namespace,
                "name": subject.name,
                "uid": subject.uid,
                "resourceVersion": subject.resource_version,
                "ownerUid": subject.owner_uid,
                "labels": dict(subject.labels),
            },
            "successful": record.successful,
            "term": record.term,
        }
    )
    return b"".join((head[:-1], b',"object":', record.raw, b",", tail[1:]))  # in the order of the keys


def parse_record(text: bytes, where: str) -> Record:
    """Return the record in a store's bytes; `where` is the store's name for it. `BadRecord` for invalid bytes."""
    try:
        wire = read_json(text)
    except ValueError as error:
        raise BadRecord(where, "", f"not JSON: {error}") from error
    if not isinstance(wire, Mapping):
        raise BadRecord(where, "", f"found {wire!r:.80}, allowed: a map")
    return read_record(wire, where)


def read_record(wire: Mapping[str, Any], where: str) -> Record:
    """Read a record from plain data, as `parse_record`."""
    for name, value in (("apiVersion", API_VERSION), ("kind", KIND)):
        if wire.get(name) != value:
            raise BadRecord(where, name, f"found {wire.get(name)!r:.80}, allowed: {value!r}")
    content = wire.get("object")
    if not isinstance(content, Mapping):
        raise BadRecord(where, "object", f"found {content!r:.80}, allowed: a map")
    try:
        raw = canonical_json(content)
    except ValueError as error:
        raise BadRecord(where, "object", f"{error}") from error
    if wire.get("digest") != digest(raw):
        problem = f"found {wire.get('digest')!r:.80}, but the object has {digest(raw)!r}: one of them was changed"
        raise BadRecord(where, "digest", problem)
    return Record(
        _read_subject(where, wire.get("subject"), content),
        _parse_time(where, "completedAt", wire["completedAt"]) if wire.get("completedAt") is not None else None,
        _parse_outcome(where, wire.get("successful")),
        _text(where, "reason", wire.get("reason", "")),
        _parse_time(where, "archivedAt", wire.get("archivedAt")),
        _parse_term(where, wire.get("term")),
        digest(raw),
        raw,
    )


def _read_subject(where: str, wire: object, content: Mapping[str, Any]) -> Subject:
    """Return the subject of the object. A different subject in the record was edited."""
    if not isinstance(wire, Mapping):
        raise BadRecord(where, "subject", f"found {wire!r:.80}, allowed: a map")
    subject = _subject_of(where, content, _indexed_text(where, "subject.resource", wire.get("resource", "")))
    said = {
        "group": subject.group,
        "version": subject.version,
        "kind": subject.kind,
        "namespace": subject.namespace,
        "name": subject.name,
        "uid": subject.uid,
        "resourceVersion": subject.resource_version,
        "ownerUid": subject.owner_uid,
        "labels": subject.labels,
    }
    for name, value in said.items():
        if wire.get(name) != value:
            raise BadRecord(
                where, f"subject.{name}", f"found {wire.get(name)!r:.80}, but the object says {value!r:.80}"
            )
    return subject


def _subject_of(where: str, content: Mapping[str, Any], resource: str) -> Subject:
    try:
        metadata = mapping_at(content, "metadata")
        labels = mapping_at(metadata, "labels")
    except ValueError as error:
        raise BadRecord(where, "object.metadata", str(error)) from error
    api_version = _indexed_text(where, "object.apiVersion", content.get("apiVersion", ""))
    group, _, version = api_version.rpartition("/")
    subject = Subject(
        group,
        version,
        _required_text(where, "object.kind", content.get("kind", "")),
        _indexed_text(where, "subject.resource", resource),
        _indexed_text(where, "object.metadata.namespace", metadata.get("namespace") or ""),
        _required_text(where, "object.metadata.name", metadata.get("name", "")),
        _required_text(where, "object.metadata.uid", metadata.get("uid", "")),
        _indexed_text(where, "object.metadata.resourceVersion", metadata.get("resourceVersion", "")),
        _owner_uid(where, metadata.get("ownerReferences")),
        MappingProxyType(dict(labels)),
    )
    for key, value in labels.items():
        _indexed_text(where, "object.metadata.labels", key, LONGEST_LABEL_KEY)
        _indexed_text(where, f"object.metadata.labels[{key}]", value)
    return subject


def _owner_uid(where: str, owners: object) -> str:
    path = "object.metadata.ownerReferences"
    if owners is None:
        return ""
    if not isinstance(owners, list) or not all(isinstance(owner, Mapping) for owner in owners):
        raise BadRecord(where, path, f"found {owners!r:.80}, allowed: a list of maps")
    for owner in owners:
        if owner.get("controller") is True:
            return _indexed_text(where, path, owner.get("uid", ""))
    return ""


def _text(where: str, path: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadRecord(where, path, f"found {value!r:.80}, allowed: text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadRecord(where, path, f"found {value!a:.80}, allowed: valid Unicode text") from error
    return value


def _indexed_text(where: str, path: str, value: object, longest: int = LONGEST) -> str:
    """Return text that every store can sort and search by. The API server allows nothing else in these fields."""
    text = _text(where, path, value)
    if "\0" in text or len(text.encode()) > longest:
        raise BadRecord(where, path, f"found {text!a:.80}, allowed: at most {longest} bytes without NUL")
    return text


def _required_text(where: str, path: str, value: object) -> str:
    text = _indexed_text(where, path, value)
    if not text:
        raise BadRecord(where, path, "found nothing, allowed: at least one character")
    return text


def _parse_time(where: str, path: str, value: object) -> datetime:
    try:
        return parse_time(_text(where, path, value))
    except BadTime as error:
        raise BadRecord(where, path, str(error)) from error


def _parse_outcome(where: str, value: object) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise BadRecord(where, "successful", f"found {value!r:.80}, allowed: true, false or null")


def _parse_term(where: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return value
    raise BadRecord(where, "term", f"found {value!r:.80}, allowed: an integer from 0 to 9223372036854775807")
