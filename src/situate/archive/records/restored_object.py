"""Make a new object from a record, equal to the archived one except for fields of the old object alone.

The caller first looks up which owners still exist. Afterwards it creates the object and writes the status. The object's
TTL counts from its creation, because that is later than its completion.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from situate.archive.records.canonical_json import mapping_at
from situate.archive.records.equality import SERVER_SET, Marks
from situate.archive.records.record import Record

Content = Mapping[str, Any]


class CannotRestore(ValueError):
    """No object can be created from the record; the message names the object, the field and the allowed values."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The fields of an owner reference that identify the owner."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Restored:
    """The object to create, and the status to write afterwards through its subresource."""

    content: dict[str, Any]
    """Without the status, which the API server would drop."""
    status: dict[str, Any] | None
    """None if the object had no status."""
    left_out: tuple[Owner, ...]
    """Owners that no longer exist."""


def owners_of(content: Content) -> tuple[Owner, ...]:
    """Return the owners that the object names, in its order."""
    return tuple(_owner(reference) for reference in mapping_at(content, "metadata").get("ownerReferences") or ())


def restored(
    record: Record,
    marks: Marks,
    unassigned: Callable[[Content], Content],
    present: Collection[str] | None,
    *,
    name: str = "",
    convert: Callable[[dict[str, Any]], Content] | None = None,
) -> Restored:
    """Return the new object of a record.

    `present`: UIDs of owners that still exist. None preserves every owner; the garbage collector then deletes an object
    whose owners are all gone. `unassigned` removes the assignment. `name` replaces the object's own name, which may be
    taken. `convert` first converts the archived object to another version. Raises `CannotRestore`.
    """
    content = dict(record.object if convert is None else convert(record.object))
    _check(record, content)
    content = dict(unassigned(content))
    status = content.pop("status", None)
    metadata = {key: value for key, value in content["metadata"].items() if key not in (*SERVER_SET, "uid")}
    if name:
        metadata["name"] = name
    left_out = () if present is None else tuple(owner for owner in owners_of(content) if owner.uid not in present)
    gone = {owner.uid for owner in left_out}
    _filter_list(metadata, "ownerReferences", lambda reference: _owner(reference).uid not in gone)
    _filter_list(metadata, "finalizers", lambda entry: entry != marks.finalizer)
    for field, ours in (("annotations", marks.annotations), ("labels", marks.labels)):
        if field in metadata:
            metadata[field] = {key: value for key, value in (metadata[field] or {}).items() if key not in ours}
            if not metadata[field]:
                del metadata[field]
    return Restored({**content, "metadata": metadata}, status, left_out)


def _filter_list(metadata: dict[str, Any], field: str, wanted: Callable[[Any], bool]) -> None:
    """Filter a list; remove it if it is then empty."""
    kept = [entry for entry in metadata.pop(field, None) or () if wanted(entry)]
    if kept:
        metadata[field] = kept


def _owner(reference: Mapping[str, Any]) -> Owner:
    return Owner(*(str(reference.get(field, "")) for field in ("apiVersion", "kind", "name", "uid")))


def _check(record: Record, content: Content) -> None:
    """Check the object. The result of `convert` may be invalid; a record's own object is valid."""
    for path, value in (("apiVersion", content.get("apiVersion")), ("kind", content.get("kind"))):
        if not isinstance(value, str) or not value:
            raise CannotRestore(f"{record.subject.key}: converted {path}: found {value!r:.80}, allowed: text")
    metadata = content.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        raise CannotRestore(
            f"{record.subject.key}: converted metadata: found {metadata!r:.80}, allowed: a map with the name"
        )
    for field in ("ownerReferences", "finalizers"):
        if not isinstance(metadata.get(field) or [], list):
            raise CannotRestore(
                f"{record.subject.key}: metadata.{field}: found {metadata[field]!r:.80}, allowed: a list"
            )
    if not all(isinstance(reference, Mapping) for reference in metadata.get("ownerReferences") or ()):
        raise CannotRestore(
            f"{record.subject.key}: metadata.ownerReferences: found an entry that is not a map, allowed: maps"
        )
    if not isinstance(content.get("status", {}), Mapping):
        raise CannotRestore(f"{record.subject.key}: status: found {content['status']!r:.80}, allowed: a map")
