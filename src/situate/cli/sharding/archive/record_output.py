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
    Column("kind", wide=True),
    Column("namespace"),
    Column("name"),
    Column("outcome"),
    Column("reason"),
    Column("completed"),
    Column("archived"),
    Column("uid"),
    Column("version", wide=True, right=True),
    Column("digest", wide=True),
)


def record_rows(records: Iterable[Record]) -> list[tuple[object, ...]]:
    """Return rows for `COLUMNS`."""
    return [
        (
            record.subject.group_kind,
            record.subject.namespace or "-",
            record.subject.name,
            outcome_text(record),
            record.reason or "-",
            _time_text(record.completed_at),
            _time_text(record.archived_at),
            record.subject.uid,
            record.subject.resource_version,
            record.digest.removeprefix("sha256:")[:12],
        )
        for record in records
    ]


def outcome_text(record: Record) -> str:
    """Return the outcome in one word."""
    match record.successful:
        case True:
            return "succeeded"
        case False:
            return "failed"
        case None:
            return "unfinished" if record.completed_at is None else "unknown"


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
