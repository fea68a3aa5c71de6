"""The object that a record becomes again: a new one, equal to the archived one but for what only that one could have.

Which of its owners are still there has to be looked up before, and the new object created and its status written
after; both are left to the caller. Its time to live counts from then, since its creation is later than its completion.
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
    """The record gives no object that could be created; the message names object, field and what is allowed."""


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner reference, as far as finding the owner needs it."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Restored:
    """What to do: create, then write the status through its subresource."""

    content: dict[str, Any]
    """Without status, which the API server would drop."""
    status: dict[str, Any] | None
    """None if it had none."""
    left_out: tuple[Owner, ...]
    """Owners that are gone."""


def owners_of(content: Content) -> tuple[Owner, ...]:
    """Those that the object names, in its order."""
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
    """The new object of a record.

    `present`: UIDs of owners that are still there; None keeps every owner, and the garbage collector deletes what has
    only owners that are gone. `unassigned` takes the assignment off. `name`: instead of its own, which somebody else
    may have by now. `convert` turns the archived object into one of another version, before anything else.
    Raises `CannotRestore`.
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
    _keep(metadata, "ownerReferences", lambda reference: _owner(reference).uid not in gone)
    _keep(metadata, "finalizers", lambda entry: entry != marks.finalizer)
    for field, ours in (("annotations", marks.annotations), ("labels", marks.labels)):
        if field in metadata:
            metadata[field] = {key: value for key, value in (metadata[field] or {}).items() if key not in ours}
            if not metadata[field]:
                del metadata[field]
    return Restored({**content, "metadata": metadata}, status, left_out)


def _keep(metadata: dict[str, Any], field: str, wanted: Callable[[Any], bool]) -> None:
    """Of a list; one that is left empty goes."""
    kept = [entry for entry in metadata.pop(field, None) or () if wanted(entry)]
    if kept:
        metadata[field] = kept


def _owner(reference: Mapping[str, Any]) -> Owner:
    return Owner(*(str(reference.get(field, "")) for field in ("apiVersion", "kind", "name", "uid")))


def _check(record: Record, content: Content) -> None:
    """What `convert` made may be anything; a record's own object is in order."""
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
        raise CannotRestore(f"{record.subject.key}: metadata.ownerReferences: found no map, allowed: maps only")
    if not isinstance(content.get("status", {}), Mapping):
        raise CannotRestore(f"{record.subject.key}: status: found {content['status']!r:.80}, allowed: a map")
