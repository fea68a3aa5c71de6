"""Field ownership: server-side apply, and the managedFields of every other write.

After `k8s.io/apimachinery/pkg/util/managedfields` and `structured-merge-diff/merge`. Callers pass objects as they will
be stored, after decoding, defaults and validation. A write never owns the fields that it may not change (`reset`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import msgspec

from situate.cluster.errors.field_errors import Refused, bad_request
from situate.cluster.errors.go_text import quote
from situate.cluster.kinds.schemas.nodes import Schema
from situate.cluster.patch.fieldmanager_check import wrong_fields
from situate.cluster.patch.fieldmanager_creation import UNOWNED_METADATA, created_fields
from situate.cluster.patch.fieldmanager_paths import (
    EMPTY,
    NotAssociativeError,
    Path,
    Paths,
    format_path,
    from_fields_v1,
    sort_in_walk_order,
    to_fields_v1,
    without_prefixes,
)
from situate.cluster.patch.fieldmanager_values import compare, field_set, merge, remove_paths, with_named_fields

APPLY: Final = "Apply"
UPDATE: Final = "Update"
MAX_UPDATERS: Final = 10
"""Update entries above this number are merged into `ancient-changes`."""
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_NEVER_OWNED: Final[Paths] = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",), *(("f:metadata", f"f:{name}") for name in UNOWNED_METADATA)}
)


@dataclass(frozen=True, slots=True)
class ManagerIdentity:
    """Manager, version and time of one write."""

    manager: str
    """The query parameter fieldManager, or the user agent up to its slash."""
    api_version: str
    time: str
    """Time such as `2026-01-01T00:00:00Z`."""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of metadata.managedFields."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str
    paths: Paths

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Return the key that merges entries. An applier has the same key in every version."""
        return (self.manager, self.operation, "" if self.operation == APPLY else self.api_version, self.subresource)

    def to_json(self) -> dict[str, Any]:
        entry = {"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version}
        if self.time:
            entry["time"] = self.time
        out: dict[str, Any] = {**entry, "fieldsType": "FieldsV1", "fieldsV1": to_fields_v1(self.paths)}
        if self.subresource:
            out["subresource"] = self.subresource
        return out


_Entries = dict[tuple[str, str, str, str], _Entry]


def reset_fields(kind: str, subresource: str, has_status: bool) -> Paths:
    """Return the fields that a write to the resource or its subresource must not change."""
    if subresource == "":
        return frozenset({("f:status",)}) if has_status else EMPTY
    if subresource != "status":
        return EMPTY
    if kind == "Pod":
        metadata = {("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences")}
        return frozenset({("f:spec",)} | metadata)
    if kind in ("Deployment", "DaemonSet"):
        return frozenset({("f:spec",), ("f:metadata", "f:labels")})
    return frozenset({("f:spec",)})


def update_managers(
    live: dict[str, Any] | None, new: dict[str, Any], schema: Schema, writer: ManagerIdentity, reset: Paths = EMPTY
) -> list[dict[str, Any]]:
    """Return metadata.managedFields of `new` after any write other than an apply; `live` is None for a creation.

    An update does not start to track an object that is not tracked yet. A writer that sends an empty list stops
    tracking.
    """
    sent = new.get("metadata", {}).get("managedFields")
    before = None if live is None else live.get("metadata", {}).get("managedFields")
    if sent == [] or sent == [{}]:
        return []
    entries = (
        _decode_entries(before) if writer.subresource else _decode_entries(sent) or _decode_entries(before)
    ) or {}
    if not entries:
        return [] if live is not None else _entries_of_new(new, schema, writer, reset)
    return _encode_entries(_entries_after_update(live, new, schema, writer, entries, reset))


def _entries_of_new(new: dict[str, Any], schema: Schema, writer: ManagerIdentity, reset: Paths) -> list[dict[str, Any]]:
    """Return the one entry of a new object. The writer owns every field."""
    try:
        fields = created_fields(new, _zero_value(schema), schema, reset)
    except NotAssociativeError:
        return _encode_entries(_entries_after_update(None, new, schema, writer, {}, reset))
    entry = _Entry(writer.manager or "unknown", UPDATE, writer.api_version, writer.subresource, writer.time, EMPTY)
    return [{**entry.to_json(), "fieldsV1": fields}] if fields else []


def _entries_after_update(
    live: dict[str, Any] | None,
    new: dict[str, Any],
    schema: Schema,
    writer: ManagerIdentity,
    entries: _Entries,
    reset: Paths,
) -> _Entries:
    difference = compare(_live_or_empty(live, schema), _without_entries(new), schema)
    taken = without_prefixes(frozenset(difference.added | difference.modified), reset)
    gone = without_prefixes(frozenset(difference.removed), reset)
    entries = _without_paths(entries, taken | gone)
    owned = taken - _NEVER_OWNED
    if owned:
        entry = _Entry(writer.manager or "unknown", UPDATE, writer.api_version, writer.subresource, writer.time, owned)
        previous = entries.get(entry.identity)
        if previous is not None:
            entry = replace(entry, paths=owned | previous.paths)
        entries[entry.identity] = entry
    return _cap_updaters(entries)


def _without_paths(entries: _Entries, paths: Paths) -> _Entries:
    left = {identity: replace(entry, paths=entry.paths - paths) for identity, entry in entries.items()}
    return {identity: entry for identity, entry in left.items() if entry.paths}


def _cap_updaters(entries: _Entries) -> _Entries:
    """Merge the oldest updaters of each version into `ancient-changes` down to MAX_UPDATERS entries."""
    updaters = sorted(
        (entry for entry in entries.values() if entry.operation == UPDATE),
        key=lambda entry: (entry.time, entry.manager),
    )
    excess = len(updaters) - MAX_UPDATERS
    first: dict[str, _Entry] = {}
    for entry in updaters:
        if excess <= 0:
            break
        bucket = _Entry("ancient-changes", UPDATE, entry.api_version, "", entry.time, entry.paths)
        if entry.api_version not in first:
            first[entry.api_version] = entry
            continue
        older = entries.pop(bucket.identity, None) or entries.pop(first[entry.api_version].identity)
        entries.pop(entry.identity, None)
        entries[bucket.identity] = replace(bucket, paths=older.paths | entry.paths)
        excess -= 1
    return entries


def server_side_apply(
    live: dict[str, Any] | None,
    applied: dict[str, Any],
    schema: Schema,
    writer: ManagerIdentity,
    *,
    force: bool = False,
    reset: Paths = EMPTY,
) -> dict[str, Any] | Refused:
    """Return the object after a server-side apply, with its managedFields; `applied` is the body as sent.

    An apply that changes nothing returns an object equal to the live one, with equal managedFields. The result is a 500
    for a body that does not fit the types, and a 400 for one that sets managedFields. It is a 409 if other managers own
    fields that would change and `force` is not set.
    """
    problems = wrong_fields(applied, schema)
    if problems:
        return _type_refusal(applied, problems)
    applied = {key: value for key, value in applied.items() if key != "metadata" or value is not None}
    if applied.get("metadata", {}).get("managedFields") is not None:
        return bad_request("metadata.managedFields must be nil")
    entries = {} if live is None else (_decode_entries(live.get("metadata", {}).get("managedFields")) or {})
    if not entries and live is not None:
        first = replace(writer, manager="before-first-apply", subresource="")
        entries = _entries_after_update(None, live, schema, first, {}, EMPTY)
    try:
        outcome = _merge_applied(live, applied, schema, writer, entries, force, reset)
    except NotAssociativeError as error:
        return _type_refusal(applied, [str(error)])
    return outcome


def _merge_applied(
    live: dict[str, Any] | None,
    applied: dict[str, Any],
    schema: Schema,
    writer: ManagerIdentity,
    entries: _Entries,
    force: bool,
    reset: Paths,
) -> dict[str, Any] | Refused:
    base = _live_or_empty(live, schema)
    mine = _Entry(writer.manager, APPLY, writer.api_version, writer.subresource, writer.time, EMPTY)
    last = entries.get(mine.identity)
    mine = replace(mine, paths=without_prefixes(field_set(applied, schema), reset))
    merged = merge(base, applied, schema)
    everyone = {**entries, mine.identity: mine}
    if last is not None:
        merged = _prune_unowned(merged, last.paths, everyone, schema)
    difference = compare(base, merged, schema)
    changed = without_prefixes(frozenset(difference.added | difference.modified), reset)
    others = {identity: entry for identity, entry in entries.items() if identity != mine.identity}
    conflicts = [(entry, path) for entry in others.values() for path in sort_in_walk_order(entry.paths & changed)]
    if conflicts and not force:
        conflicts = _without_migrated(conflicts, live, schema, writer)
        if conflicts:
            return _conflict_refusal(conflicts)
    result = _without_paths(others, changed | without_prefixes(frozenset(difference.removed), reset))
    unchanged = live is not None and merged == base
    owned = mine.paths - _NEVER_OWNED
    if owned:
        time = last.time if unchanged and last is not None else ("" if unchanged else writer.time)
        result[mine.identity] = replace(mine, paths=owned, time=time)
    return _with_entries(_sync_last_applied(merged, applied, writer), result)


def _prune_unowned(merged: dict[str, Any], last: Paths, entries: _Entries, schema: Schema) -> dict[str, Any]:
    """Remove the fields that this applier set before and that no manager owns any more."""
    before = with_named_fields(last, schema)
    kept = remove_paths(merged, before, schema)
    owned = with_named_fields(frozenset().union(*(entry.paths for entry in entries.values())), schema)
    all_paths = with_named_fields(field_set(merged, schema), schema)
    kept = remove_paths(merged, all_paths - (with_named_fields(field_set(kept, schema), schema) | owned), schema)
    dangling = all_paths - with_named_fields(field_set(kept, schema), schema)
    outcome: dict[str, Any] = remove_paths(merged, dangling & before, schema)
    return outcome


def _without_migrated(
    conflicts: list[tuple[_Entry, Path]], live: dict[str, Any] | None, schema: Schema, writer: ManagerIdentity
) -> list[tuple[_Entry, Path]]:
    """Remove the conflicts over fields that the same user applied with client-side `kubectl apply`."""
    text = (live or {}).get("metadata", {}).get("annotations", {}).get(LAST_APPLIED)
    if writer.manager != "kubectl" or not text:
        return conflicts
    try:
        last = msgspec.json.decode(text)
        if not isinstance(last, dict) or last.get("apiVersion") != writer.api_version:
            return conflicts
        difference = compare(last, _without_entries(live or {}), schema)
        owned = field_set(last, schema) - difference.modified - difference.added - difference.removed
    except (msgspec.DecodeError, NotAssociativeError):
        return conflicts
    return [(entry, path) for entry, path in conflicts if path not in owned]


def _sync_last_applied(merged: dict[str, Any], applied: dict[str, Any], writer: ManagerIdentity) -> dict[str, Any]:
    """Update an existing last-applied annotation after kubectl's server-side apply."""
    metadata = merged.get("metadata", {})
    annotations = metadata.get("annotations") or {}
    if writer.manager != "kubectl" or not annotations.get(LAST_APPLIED):
        return merged
    sent = applied.get("metadata", {})
    cleaned = {key: value for key, value in (sent.get("annotations") or {}).items() if key != LAST_APPLIED}
    body = {**applied, "metadata": {**sent, **({"annotations": cleaned} if sent.get("annotations") else {})}}
    text = msgspec.json.encode(body, order="sorted").decode() + "\n"
    return {**merged, "metadata": {**metadata, "annotations": {**annotations, LAST_APPLIED: text}}}


def _conflict_refusal(conflicts: Sequence[tuple[_Entry, Path]]) -> Refused:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_format_manager(entry)}",
            "field": format_path(path),
        }
        for entry, path in conflicts
    ]
    if len(conflicts) == 1:
        entry, path = conflicts[0]
        message = f"Apply failed with 1 conflict: conflict with {_format_manager(entry)}: {format_path(path)}"
    else:
        lines: list[str] = []
        for manager in sorted({_format_manager(entry) for entry, _ in conflicts}):
            lines.append(f"conflicts with {manager}:")
            lines += [f"- {format_path(path)}" for entry, path in conflicts if _format_manager(entry) == manager]
        message = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return Refused(409, "Conflict", message, {"causes": causes})


def _format_manager(entry: _Entry) -> str:
    text = quote(entry.manager)
    if entry.subresource:
        text += f" with subresource {quote(entry.subresource)}"
    return f"{text} using {entry.api_version}" if entry.operation == UPDATE else text


def _type_refusal(applied: dict[str, Any], problems: Sequence[str]) -> Refused:
    sent = applied.get("metadata")
    metadata = sent if isinstance(sent, dict) else {}
    group, _, version = applied.get("apiVersion", "").rpartition("/")
    where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {group}/{version}, Kind={applied.get('kind')}"
    return Refused(500, "", f"failed to create typed patch object ({where}): {_join_problems(problems)}")


def _join_problems(problems: Sequence[str]) -> str:
    return problems[0] if len(problems) == 1 else "errors:\n" + "\n".join(f"  {problem}" for problem in problems)


def _decode_entries(entries: Any) -> _Entries | None:
    """Return None for a list that cannot be parsed, as for an absent one."""
    if not entries:
        return None
    found: _Entries = {}
    try:
        for raw in entries:
            if raw.get("operation") not in (APPLY, UPDATE) or not raw.get("apiVersion"):
                return None
            if raw.get("fieldsType") != "FieldsV1":
                return None
            entry = _Entry(
                raw.get("manager", ""),
                raw["operation"],
                raw["apiVersion"],
                raw.get("subresource", ""),
                raw.get("time", ""),
                from_fields_v1(raw.get("fieldsV1", {})),
            )
            found[entry.identity] = entry
    except ValueError:
        return None
    return found


def _encode_entries(entries: _Entries) -> list[dict[str, Any]]:
    return [entry.to_json() for entry in sorted(entries.values(), key=_sort_key)]


def _sort_key(entry: _Entry) -> tuple[str, ...]:
    return (entry.operation, entry.time, entry.manager, entry.api_version, entry.subresource)


def _without_entries(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def _with_entries(obj: dict[str, Any], entries: _Entries) -> dict[str, Any]:
    metadata = {key: value for key, value in obj.get("metadata", {}).items() if key != "managedFields"}
    encoded = _encode_entries(entries)
    return {**obj, "metadata": {**metadata, "managedFields": encoded} if encoded else metadata}


def _live_or_empty(live: dict[str, Any] | None, schema: Schema) -> dict[str, Any]:
    """Return the live object without its entries, or Go's empty object, whose fields no writer owns."""
    return _zero_value(schema) if live is None else _without_entries(live)


@cache
def _zero_value(schema: Schema) -> dict[str, Any]:
    """Return the zero value of a built-in kind, with nulls for required lists and pointers.

    For a custom kind it is an empty object.
    """
    found: dict[str, Any] = {}
    if not schema.go_name:
        return found
    for name, property_ in schema.properties.items():
        go = property_.go
        if go is None or go.omit_zero or name in ("apiVersion", "kind"):
            continue
        if go.kind == "struct" and not go.pointer:
            found[name] = _zero_value(property_) if property_.properties else None
        elif not go.omit_empty:
            found[name] = None if go.pointer or go.kind in ("slice", "map") else _ZERO_SCALARS.get(go.kind)
    return found


_ZERO_SCALARS: Final = {"string": "", "bool": False, "int32": 0, "int64": 0}
