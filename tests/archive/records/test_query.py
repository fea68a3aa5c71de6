from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import Any

import pytest

from situate.archive.records.query import BadQuery, Query, matches, page_of
from situate.archive.records.record import GroupKind
from situate.objects.kinds.selectors import LabelSelectorRequirement
from tests.archive.reports import KIND, NOON, archived, report

pytestmark = pytest.mark.rule("sharding:X12")


def expression(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key, operator, values)


RECORD = archived(
    report("nightly.job", "ns1", "u1", 10, {"app": "x", "empty": ""}, owner="o1"), completed_s=-60, reason="Done"
)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, True),
        ({"kind": KIND}, True),
        ({"kind": GroupKind("", "Report")}, False),
        ({"namespaces": ("ns1", "ns2")}, True),
        ({"namespaces": ()}, False),
        ({"names": ("nightly.job",)}, True),
        ({"names": ()}, False),
        ({"names": ("nightly",)}, False),
        ({"substring": "ly.j"}, True),
        ({"substring": "lyxj"}, False),
        ({"prefix": "nightly", "suffix": "job"}, True),
        ({"prefix": "nightly", "suffix": "jo"}, False),
        ({"prefix": ".*"}, False),
        ({"suffix": "%"}, False),
        ({"substring": "_"}, False),
        ({"prefix": "Night"}, False),
        ({"match_labels": {"app": "x"}}, True),
        ({"match_labels": {"app": ""}}, False),
        ({"match_labels": {"empty": ""}}, True),
        ({"match_labels": {"absent": ""}}, False),
        ({"match_expressions": (expression("app", "In", "x", "y"),)}, True),
        ({"match_expressions": (expression("absent", "In", ""),)}, False),
        ({"match_expressions": (expression("app", "NotIn", "x"),)}, False),
        ({"match_expressions": (expression("absent", "NotIn", "x"),)}, True),
        ({"match_expressions": (expression("empty", "Exists"),)}, True),
        ({"match_expressions": (expression("empty", "DoesNotExist"),)}, False),
        ({"match_expressions": (expression("app", "Exists"), expression("absent", "Exists"))}, False),
        ({"uid": "u1"}, True),
        ({"uid": ""}, False),
        ({"owner_uid": "o1"}, True),
        ({"owner_uid": ""}, False),
        ({"successful": True}, True),
        ({"successful": False}, False),
        ({"reason": "Done"}, True),
        ({"reason": ""}, False),
        ({"archived_since": NOON}, True),
        ({"archived_before": NOON}, False),
        ({"completed_since": NOON}, False),
        ({"completed_before": NOON}, True),
    ],
)
def test_every_condition(conditions: dict[str, Any], expected: bool) -> None:
    assert matches(RECORD, Query(**conditions)) is expected


def test_what_never_completed_has_no_outcome_and_no_time_of_completion() -> None:
    record = archived(completed_s=None, successful=None)
    assert matches(record, Query())
    assert not matches(record, Query(completed_since=NOON - timedelta(days=9999)))
    assert not matches(record, Query(completed_before=NOON + timedelta(days=9999)))
    assert not matches(record, Query(successful=False))


def test_newest_first_then_by_uid() -> None:
    records = [
        archived(report(uid="b"), at_s=0),
        archived(report(uid="c"), at_s=0.000001),
        archived(report(uid="a"), at_s=0),
        archived(report(uid="a", kind="Other"), at_s=0),
    ]
    page = page_of(records, Query())
    assert [(r.subject.uid, r.subject.kind) for r in page.records] == [
        ("c", "Report"),
        ("a", "Other"),
        ("a", "Report"),
        ("b", "Report"),
    ]
    assert page.continue_ == ""


def test_pages_hold_each_record_once_whatever_is_archived_or_deleted_meanwhile() -> None:
    records = [archived(report(uid=f"u{n}"), at_s=n) for n in range(5)]
    query = Query(limit=2)
    first = page_of(records, query)
    newer = archived(report(uid="new"), at_s=99)
    second = page_of([*records[:3], newer], Query(limit=2, continue_=first.continue_))
    third = page_of([*records[:2], newer], Query(limit=2, continue_=second.continue_))
    uids = [[r.subject.uid for r in page.records] for page in (first, second, third)]
    assert uids == [["u4", "u3"], ["u2", "u1"], ["u0"]]
    assert third.continue_ == ""


def test_a_page_that_ends_with_the_last_record_is_the_last() -> None:
    assert page_of([archived()], Query(limit=1)).continue_ == ""
    assert page_of([], Query(limit=1)) == page_of([], Query())


TOKEN = page_of([archived(report(uid="a")), archived(report(uid="b"))], Query(limit=1)).continue_


@pytest.mark.parametrize(
    ("conditions", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": -1}, "limit"),
        ({"names": ("a\0",)}, "names"),
        ({"substring": "\ud800"}, "substring"),
        ({"reason": "\udfff"}, "reason"),
        ({"archived_since": datetime(2026, 1, 1)}, "archived_since"),  # noqa: DTZ001  # what is refused
        ({"match_labels": {"": "x"}}, "query.matchLabels"),
        ({"match_labels": {"app": "a b"}}, "query.matchLabels"),
        ({"match_expressions": (expression("app", "Like", "x"),)}, r"query.matchExpressions\[0\].operator"),
        ({"match_expressions": (expression("app", "In"),)}, r"query.matchExpressions\[0\].values"),
        ({"match_expressions": (expression("app", "Exists", "x"),)}, r"query.matchExpressions\[0\].values"),
        ({"continue_": "garbage"}, "continue"),
        ({"continue_": "ä"}, "continue"),
        ({"continue_": "=" * 9}, "continue"),
        ({"continue_": base64.urlsafe_b64encode(b"[1,2]").decode()}, "continue"),
        ({"continue_": base64.urlsafe_b64encode(b"[" * 9999).decode()}, "continue"),
        ({"continue_": base64.urlsafe_b64encode(b'[1,"","2026-01-01T00:00:00Z",1,2,3]').decode()}, "continue"),
        ({"continue_": TOKEN, "prefix": "x"}, "continue"),
        ({"continue_": TOKEN[:-8]}, "continue"),
    ],
)
def test_no_query_is_refused_by_its_field(conditions: dict[str, Any], field: str) -> None:
    with pytest.raises(BadQuery, match=f"^{field}: found ") as caught:
        Query(**conditions)
    assert len(str(caught.value)) < 400


def test_a_token_fits_its_query_with_any_limit() -> None:
    Query(continue_=TOKEN, limit=7)
    Query(continue_=TOKEN)
