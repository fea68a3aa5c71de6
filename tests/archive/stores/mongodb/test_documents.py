"""Documents and filters alone: nothing hostile becomes an operator, a path or a pattern."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest

from situate.archive.records.query import Query
from situate.archive.records.record import BadRecord
from situate.archive.stores.mongodb.documents import document_of, filter_of, record_in, replaceable_filter
from situate.objects.kinds.selectors import LabelSelectorRequirement
from tests.archive.reports import KIND, archived, report

HOSTILE: dict[str, Any] = {
    "$where": "sleep(1000)",
    "a.b": {"$gt": "", "": None},
    "numbers": [1, 1.0, 2**80, -0.0, 1e300],
    "text": "\0 \ud7ff 𐀀",
}


@pytest.mark.rule("sharding:B9")
def test_a_document_gives_back_every_byte() -> None:
    deep: Any = 1
    for _ in range(150):  # BSON's own limit is a hundred
        deep = {"d": deep}
    record = archived(report(labels={"a.b/c": "$ne"}, hostile=HOSTILE, deep=deep))
    stored = bson.decode(bson.encode(document_of(record)))
    assert record_in(stored, "it") == record


@pytest.mark.parametrize("name", ["uid", "name", "labels", "archivedAt", "successful", "version"])
def test_a_field_that_was_changed_beside_the_record_is_told(name: str) -> None:
    with pytest.raises(BadRecord, match=f"it cannot be used: {name}: found 'other', but the record says"):
        record_in({**document_of(archived()), name: "other"}, "it")


@pytest.mark.parametrize("text", [None, 1, "", "{", '{"apiVersion":1}'])
def test_what_is_no_record_is_told(text: object) -> None:
    with pytest.raises(BadRecord):
        record_in({**document_of(archived()), "record": text}, "it")


@pytest.mark.parametrize("text", [".*", "^a$", "a\nb", "\\", "[", "\\E", "(?i)x", "é𐀀", " #-&~"])
def test_text_is_literal(text: str) -> None:
    conditions = filter_of(Query(substring=text, prefix=text, suffix=text))["$and"]
    substring, prefix, suffix = (condition["name"]["$regex"] for condition in conditions)
    assert re.fullmatch(substring, text)
    assert (prefix, suffix) == (rf"\A{substring}", rf"{substring}\z")


def test_values_stand_where_they_are_values() -> None:
    query = Query(
        kind=KIND,
        namespaces=("$ns",),
        uid="$uid",
        reason="$reason",
        match_labels={"a.b/c": "x"},
        match_expressions=(LabelSelectorRequirement(key="d.e", operator="DoesNotExist"),),
    )
    assert filter_of(query) == {
        "$and": [
            {"group": KIND.group, "kind": KIND.kind},
            {"namespace": {"$in": ["$ns"]}},
            {"uid": {"$eq": "$uid"}},
            {"reason": {"$eq": "$reason"}},
            {"labels": {"$elemMatch": {"key": "a.b/c", "value": {"$in": ["x"]}}}},
            {"labels.key": {"$ne": "d.e"}},
        ]
    }
    assert filter_of(Query()) == {}


def test_times_are_kept_to_the_microsecond() -> None:
    early, late = datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(2026, 1, 31, 12, 0, 0, 1, UTC)
    found = filter_of(Query(completed_since=early, archived_before=late))["$and"]
    assert found == [{"completedAt": {"$gte": -1}}, {"archivedAt": {"$lt": 1_769_860_800_000_001}}]
    record = archived(at_s=timedelta(microseconds=7).total_seconds())
    assert document_of(record)["archivedAt"] == 1_769_860_800_000_007


@pytest.mark.rule("sharding:B9")
def test_an_older_version_finds_nothing_to_replace() -> None:
    assert replaceable_filter(archived(report(version=10)))["$or"] == [{"version": None}, {"version": {"$lte": 10}}]
    assert "$or" not in replaceable_filter(archived(report(version="opaque")))
