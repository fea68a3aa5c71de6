"""Encode a stored object once as JSON, with the few fields that find it.

A hundred thousand pods must fit in memory, so no object is held decoded. The JSON omits `metadata.managedFields`. Parts
that change per answer are at known offsets: kind and apiVersion first, then `metadata`, which begins with the
resourceVersion.

The JSON is held in two pieces. The text after `metadata` is equal for many pods of one template, so they share one
bytes object. The managers' records are held separately, and equal objects share their `fieldsV1`. They are inserted
between the pieces when the object is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any, Final

import msgspec

NO_LABELS: Final[Mapping[str, str]] = {}
"""The one empty map. It is a plain dict so that it can be encoded; it must not be changed."""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class ManagedFieldsEntry(msgspec.Struct, frozen=True, gc=False):
    """One entry of `metadata.managedFields`."""

    manager: str
    operation: str
    api_version: str
    time: str
    """Empty for an apply that changed nothing."""
    subresource: str
    fields: bytes
    """`fieldsV1` as JSON."""

    def json(self) -> bytes:
        """Return the entry as upstream encodes it."""
        head: dict[str, Any] = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
        }
        if self.time:
            head["time"] = self.time
        head["fieldsType"] = "FieldsV1"
        tail = b"}" if not self.subresource else b',"subresource":' + _encode(self.subresource) + b"}"
        return _encode(head)[:-1] + b',"fieldsV1":' + self.fields + tail


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    """An object at one resourceVersion."""

    namespace: str
    """Empty for cluster-scoped objects."""
    name: str
    uid: str
    revision: int
    head: bytes
    """The JSON up to the brace that closes `metadata`, without that brace."""
    tail: bytes
    """The rest of the JSON."""
    start: int
    """Offset of the first byte inside the braces of `metadata`."""
    managed: tuple[ManagedFieldsEntry, ...]
    labels: Mapping[str, str]
    fields: tuple[str, ...]
    """Values of the fields that field selectors can name, in the order of the resource's `selectable`."""
    owners: tuple[str, ...]
    """Uids of the owners."""
    deleting: bool
    """True if the object has a deletionTimestamp."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def raw(self) -> bytes:
        """Return the JSON of the object without `metadata.managedFields`."""
        return self.head + self.tail

    def object(self) -> dict[str, Any]:
        """Return a new decoded copy without managedFields; the caller may change it."""
        decoded: dict[str, Any] = _decode(self.raw)
        return decoded

    def object_with_managers(self) -> dict[str, Any]:
        """Return a new decoded copy with managedFields."""
        decoded: dict[str, Any] = _decode(self.json())
        return decoded

    def json(self) -> bytes:
        """Return the JSON of the object as clients see it."""
        if not self.managed:
            return self.raw
        entries = b",".join([entry.json() for entry in self.managed])
        return b"".join((self.head, b',"managedFields":[', entries, b"]", self.tail))

    def with_revision(self, revision: int) -> StoredObject:
        """Return the same object at another resourceVersion, for the event of a deletion."""
        old = b'"resourceVersion":"%d"' % self.revision
        new = b'"resourceVersion":"%d"' % revision
        head = self.head[: self.start] + new + self.head[self.start + len(old) :]
        return msgspec.structs.replace(self, revision=revision, head=head)


class InternTable:
    """Cache that shares equal values between objects. It is cleared when it holds `most` values."""

    def __init__(self, most: int = 8192) -> None:
        self._most = most
        self._known: dict[Any, Any] = {}

    def share(self, key: Any, value: Any) -> Any:
        """Return the first value seen for an equal key."""
        known = self._known.get(key)
        if known is not None:
            return known
        if len(self._known) >= self._most:
            self._known.clear()
        self._known[key] = value
        return value


_shared_values = InternTable()
_shared_tails = InternTable(1024)
"""Small, because most objects have a tail of their own. Pods of one template are mostly created one after the other."""


def share_labels(labels: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return the labels; equal labels are one object."""
    if not labels:
        return NO_LABELS
    shared: Mapping[str, str] = _shared_values.share(tuple(labels.items()), labels)
    return shared


def share_fields(fields: bytes) -> bytes:
    """Return the `fieldsV1`; equal texts are one object."""
    shared: bytes = _shared_values.share(fields, fields)
    return shared


def share_tail(tail: bytes) -> bytes:
    """Return the text after `metadata`; equal texts are one object."""
    shared: bytes = _shared_tails.share(tail, tail)
    return shared


def share_managers(managed: tuple[ManagedFieldsEntry, ...]) -> tuple[ManagedFieldsEntry, ...]:
    """Return the records; equal records are one object.

    Objects written in the same second mostly have equal records.
    """
    shared: tuple[ManagedFieldsEntry, ...] = _shared_values.share(managed, managed)
    return shared


def parse_managed_fields(entries: list[dict[str, Any]] | None) -> tuple[ManagedFieldsEntry, ...]:
    """Convert `metadata.managedFields` to records."""
    made = tuple(
        ManagedFieldsEntry(
            manager=intern(entry.get("manager", "")),
            operation=intern(entry.get("operation", "")),
            api_version=intern(entry.get("apiVersion", "")),
            time=intern(entry.get("time", "")),
            subresource=intern(entry.get("subresource", "")),
            fields=share_fields(_encode(entry.get("fieldsV1", {}))),
        )
        for entry in entries or ()
    )
    return share_managers(made)


def encode_object(
    obj: Mapping[str, Any],
    revision: int,
    *,
    managed: tuple[ManagedFieldsEntry, ...] = (),
    fields: tuple[str, ...] = (),
) -> StoredObject:
    """Encode an object at a new revision. Its `managedFields` and `resourceVersion` are ignored."""
    rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion", "metadata")}
    return encode_object_parts(
        obj["kind"], obj["apiVersion"], obj["metadata"], _encode(rest), revision, managed, fields
    )


def encode_object_parts(
    kind: str,
    api_version: str,
    metadata: Mapping[str, Any],
    rest: bytes,
    revision: int,
    managed: tuple[ManagedFieldsEntry, ...],
    fields: tuple[str, ...],
) -> StoredObject:
    """Encode an object of which everything except kind, apiVersion and metadata is already JSON.

    `rest` is that JSON, braces included.
    """
    shown = {key: value for key, value in metadata.items() if key not in ("managedFields", "resourceVersion")}
    head = b'{"kind":"%b","apiVersion":"%b","metadata":{' % (kind.encode(), api_version.encode())
    inner = b'"resourceVersion":"%d",%b' % (revision, _encode(shown)[1:-1])
    tail = b"}," + rest[1:] if len(rest) > 2 else b"}}"
    name, uid = metadata["name"], metadata.get("uid", "")
    return StoredObject(
        # Objects that name each other share the text: an Event names its pod, a pod its namespace.
        namespace=intern(metadata.get("namespace", "")),
        # No object names an Event, and an entry in the intern table costs as much as the text.
        name=name if kind == "Event" else intern(name),
        uid=uid if kind == "Event" else intern(uid),
        revision=revision,
        head=head + inner,
        tail=share_tail(tail),
        start=len(head),
        managed=managed,
        labels=share_labels(metadata.get("labels")),
        fields=fields,
        owners=tuple([intern(owner.get("uid", "")) for owner in metadata.get("ownerReferences") or ()]),
        deleting="deletionTimestamp" in metadata,
    )
