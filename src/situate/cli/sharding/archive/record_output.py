"""Format records as tables and as data."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import msgspec

from situate.archive.records.record import BadRecord, Record, encode_record
from situate.cli.terminal.output import Column
from situate.objects.values.timestamps import rfc3339

COLUMNS: Final = (
    Column("kind", lambda record: record.subject.group_kind, wide=True),
    Column("namespace", lambda record: record.subject.namespace or "-"),
    Column("name", lambda record: record.subject.name),
    Column("outcome", lambda record: _outcome_text(record.successful, record.completed_at)),
    Column("reason", lambda record: record.reason or "-"),
    Column("completed", lambda record: _time_text(record.completed_at)),
    Column("archived", lambda record: _time_text(record.archived_at)),
    Column("uid", lambda record: record.subject.uid),
    Column("version", lambda record: record.subject.resource_version, wide=True, right=True),
    Column("digest", lambda record: record.digest.removeprefix("sha256:")[:12], wide=True),
)
"""Columns of records."""


def _outcome_text(successful: bool | None, completed_at: datetime | None) -> str:
    """Return the outcome in one word."""
    match successful:
        case True:
            return "succeeded"
        case False:
            return "failed"
        case None:
            return "unfinished" if completed_at is None else "unknown"


def record_data(record: Record, *, whole: bool) -> dict[str, Any]:
    """Return the record in its stored form; without the object unless `whole`."""
    content: dict[str, Any] = msgspec.json.decode(encode_record(record))
    if not whole:
        del content["object"]
    return content


def unreadable_data(bad: Iterable[BadRecord]) -> list[dict[str, str]]:
    """Return the unreadable records as plain data."""
    return [{"record": each.record, "field": each.path, "problem": each.problem} for each in bad]


def _time_text(moment: datetime | None) -> str:
    return "-" if moment is None else rfc3339(moment)
