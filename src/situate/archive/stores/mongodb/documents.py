"""Records as documents of MongoDB, and queries as filters: pure functions without I/O.

A document holds the whole record as one text, and next to it the fields for queries. The object cannot be stored as
fields of the document, because BSON does not preserve all of it. Numbers, keys with dots or dollars, and deep nesting
may change, and the digest covers every byte. In a filter, every value is in a position in which MongoDB reads it as a
value. Text is never a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from situate.archive.records.query import Query, RecordPosition
from situate.archive.records.record import BadRecord, GroupKind, Record, encode_record, parse_record, version_number
from situate.objects.selection.label_selectors import Requirement

UNIQUE: Final = ("group", "kind", "uid")
ORDER: Final = (("archivedAt", -1), ("uid", 1), ("group", 1), ("kind", 1))
"""The order of `situate.archive.records.query`. MongoDB compares text by UTF-8 bytes, which equals Python's order."""
INDEXES: Final = (
    (("archivedAt", -1), ("uid", 1)),
    (("namespace", 1), ("name", 1)),
    (("completedAt", 1),),
    (("ownerUid", 1),),
    (("labels.key", 1), ("labels.value", 1)),
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def document_of(record: Record) -> dict[str, Any]:
    """Return the document of a record.

    Times are whole microseconds since 1970. BSON's own times have only milliseconds, and order and equality need more.
    """
    subject = record.subject
    return {
        **identity(subject.group_kind, subject.uid),
        "version": version_number(subject.resource_version),
        "namespace": subject.namespace,
        "name": subject.name,
        "ownerUid": subject.owner_uid,
        "labels": [{"key": key, "value": value} for key, value in sorted(subject.labels.items())],
        "completedAt": None if record.completed_at is None else _micros(record.completed_at),
        "successful": record.successful,
        "reason": record.reason,
        "archivedAt": _micros(record.archived_at),
        "record": encode_record(record).decode(),
    }


def record_in(document: Mapping[str, Any], where: str) -> Record:
    """Return the record of a document. `BadRecord` also if another field differs from it: queries would be wrong."""
    text = document.get("record")
    if not isinstance(text, str):
        raise BadRecord(where, "record", f"found {text!r:.80}, allowed: text")
    record = parse_record(text.encode(), where)
    for name, value in document_of(record).items():
        if name != "record" and document.get(name) != value:
            raise BadRecord(where, name, f"found {document.get(name)!r:.80}, but the record says {value!r:.80}")
    return record


def name_in(document: Mapping[str, Any]) -> str:
    """Return the name of the document for messages."""
    return "/".join(str(document.get(name, "?"))[:253] for name in UNIQUE)


def identity(kind: GroupKind, uid: str) -> dict[str, Any]:
    """Return the filter for the one document of an object."""
    return {"group": kind.group, "kind": kind.kind, "uid": uid}


def replaceable_filter(record: Record) -> dict[str, Any]:
    """Return the filter for the document of the object, unless it holds a newer version (`Record.replaces`)."""
    found = identity(record.subject.group_kind, record.subject.uid)
    version = version_number(record.subject.resource_version)
    return found if version is None else {**found, "$or": [{"version": None}, {"version": {"$lte": version}}]}


def filter_of(query: Query) -> dict[str, Any]:
    """Return the filter for records that match the query and are after the start of the page."""
    conditions: list[dict[str, Any]] = []
    if query.kind is not None:
        conditions.append({"group": query.kind.group, "kind": query.kind.kind})
    if query.namespaces is not None:
        conditions.append({"namespace": {"$in": list(query.namespaces)}})
    if query.names is not None:
        conditions.append({"name": {"$in": list(query.names)}})
    conditions += [{"name": {"$regex": pattern}} for pattern in _patterns(query)]
    exact = {"uid": query.uid, "ownerUid": query.owner_uid, "successful": query.successful, "reason": query.reason}
    conditions += [{name: {"$eq": value}} for name, value in exact.items() if value is not None]
    conditions += _time_bounds("completedAt", query.completed_since, query.completed_before)
    conditions += _time_bounds("archivedAt", query.archived_since, query.archived_before)
    conditions += [_label_filter(requirement) for requirement in query.selector.requirements]
    if query.after is not None:
        conditions.append(_position_filter(query.after))
    return {"$and": conditions} if conditions else {}


def _patterns(query: Query) -> list[str]:
    r"""Return the escaped patterns. `\A` and `\z` are the ends of the text; `^` and `$` would also match line ends."""
    parts = ((query.substring, "{}"), (query.prefix, r"\A{}"), (query.suffix, r"{}\z"))
    return [form.format(re.escape(text)) for text, form in parts if text]


def _time_bounds(name: str, since: datetime | None, before: datetime | None) -> list[dict[str, Any]]:
    """Return the bounds of a time. A comparison with a number is false for null."""
    bounds = (("$gte", since), ("$lt", before))
    return [{name: {operator: _micros(moment)}} for operator, moment in bounds if moment is not None]


def _label_filter(requirement: Requirement) -> dict[str, Any]:
    """Return the filter for a label. The key is a value, because dots in a field name would mean a path."""
    one_of = {"labels": {"$elemMatch": {"key": requirement.key, "value": {"$in": sorted(requirement.values)}}}}
    match requirement.operator:
        case "in":
            return one_of
        case "notin":
            return {"$nor": [one_of]}
        case "exists":
            return {"labels.key": {"$eq": requirement.key}}
        case "!":
            return {"labels.key": {"$ne": requirement.key}}
        case operator:
            raise AssertionError(f"a query has no operator {operator!r}")


def _position_filter(place: RecordPosition) -> dict[str, Any]:
    later: dict[str, Any] = {"kind": {"$gt": place.kind}}
    for name, value in (("group", place.group), ("uid", place.uid)):
        later = {"$or": [{name: {"$gt": value}}, {name: {"$eq": value}, **later}]}
    moment = _micros(place.archived_at)
    return {"$or": [{"archivedAt": {"$lt": moment}}, {"archivedAt": {"$eq": moment}, **later}]}


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND
