"""Convert records to rows, and rows to records."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final

from situate.archive.protocol import ArchiveCorrupt
from situate.archive.records.canonical_json import mapping_at, read_json
from situate.archive.records.query import RecordPosition
from situate.archive.records.record import (
    API_VERSION,
    KIND,
    BadRecord,
    ByUid,
    GroupKind,
    Record,
    read_record,
    version_number,
)
from situate.archive.stores.sql.tables import Row
from situate.objects.values.timestamps import micro_time

_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def row_of(record: Record) -> dict[str, Any]:
    """Return the row of a record."""
    subject = record.subject
    return {
        "grp": subject.group,
        "kind": subject.kind,
        "uid": subject.uid,
        "version": subject.version,
        "resource": subject.resource,
        "namespace": subject.namespace,
        "name": subject.name,
        "resource_version": subject.resource_version,
        "version_number": version_number(subject.resource_version),
        "owner_uid": subject.owner_uid,
        "completed_at": record.completed_at,
        "successful": record.successful,
        "reason": stored_reason(record.reason),
        "archived_at": record.archived_at,
        "term": record.term,
        "digest": record.digest,
        "object": record.raw.decode(),
    }


def label_rows_of(record: Record) -> list[dict[str, Any]]:
    """Return the rows of a record's labels, sorted by key so that two puts cannot deadlock."""
    subject = record.subject
    identity = {"grp": subject.group, "kind": subject.kind, "uid": subject.uid}
    return [{**identity, "key": key, "value": value} for key, value in sorted(subject.labels.items())]


def record_of_row(row: Row) -> Record:
    """Return the record of a row. `BadRecord` if the row was edited, and disagrees with its object or digest."""
    where = _where(row)
    try:
        content = read_json(row.object.encode())
        labels = mapping_at(mapping_at(content, "metadata"), "labels")
        reason = _read_reason(row.reason)
    except (ValueError, TypeError, AttributeError) as error:  # SQLite accepts any value in any column
        raise BadRecord(where, "object", str(error)) from error
    wire = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "subject": {
            "group": row.grp,
            "version": row.version,
            "kind": row.kind,
            "resource": row.resource,
            "namespace": row.namespace,
            "name": row.name,
            "uid": row.uid,
            "resourceVersion": row.resource_version,
            "ownerUid": row.owner_uid,
            "labels": labels,
        },
        "completedAt": _time(row.completed_at),
        "successful": row.successful,
        "reason": reason,
        "archivedAt": _time(row.archived_at),
        "term": row.term,
        "digest": row.digest,
        "object": content,
    }
    return read_record(wire, where)


def position_of_row(row: Row) -> RecordPosition:
    """Return the position of a row in the order of queries, even if the record is unreadable."""
    if not isinstance(row.archived_at, datetime):  # such as month 13, which the table accepts
        raise ArchiveCorrupt(_where(row), "archivedAt", f"found {row.archived_at!r:.80}, allowed: a time")
    return RecordPosition(row.archived_at, row.uid, row.grp, row.kind)


def stored_reason(reason: str) -> str:
    """Return the reason without zero characters. Two different reasons stay different."""
    return reason.replace("\\", "\\\\").replace("\0", "\\0")


def _read_reason(stored: str) -> str:
    return _ESCAPE.sub(lambda match: "\0" if match[1] == "0" else match[1], stored)


def _where(row: Row) -> str:
    return str(ByUid(GroupKind(row.grp, row.kind), row.uid, (row.namespace, row.name)))


def _time(value: object) -> object:
    return micro_time(value) if isinstance(value, datetime) else value
