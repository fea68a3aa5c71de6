from __future__ import annotations

from typing import Any

import pytest

from situate.archive.records.equality import Marks, content_digest
from tests.archive.reports import report

MARKS = Marks("example.com/ours", frozenset({"example.com/archived"}), frozenset({"example.com/executor"}))


def with_metadata(**fields: Any) -> dict[str, Any]:
    content = report()
    content["metadata"].update(fields)
    return content


@pytest.mark.rule("sharding:S9")
@pytest.mark.parametrize(
    ("fields", "same"),
    [
        pytest.param({"resourceVersion": "99", "generation": 3, "managedFields": [{}]}, True, id="the server's"),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}, True, id="end"),
        pytest.param({"finalizers": ["example.com/ours"]}, True, id="our finalizer"),
        pytest.param({"finalizers": []}, True, id="what our finalizer left"),
        pytest.param({"annotations": {"example.com/archived": "x"}}, True, id="our annotation"),
        pytest.param({"labels": {"example.com/executor": "e-0"}}, True, id="our label"),
        pytest.param({"finalizers": ["example.com/theirs"]}, False, id="a foreign finalizer"),
        pytest.param({"annotations": {"theirs": "x"}}, False, id="a user's annotation"),
        pytest.param({"labels": {"theirs": "x"}}, False, id="a user's label"),
        pytest.param({"uid": "another"}, False, id="another object made from a copy"),
    ],
)
def test_equal_but_for_our_marks_and_the_servers(fields: dict[str, Any], same: bool) -> None:
    assert (content_digest(with_metadata(**fields), MARKS) == content_digest(report(), MARKS)) is same


@pytest.mark.rule("sharding:S9")
def test_whatever_else_changed_makes_it_another() -> None:
    assert content_digest(report(size=1), MARKS) != content_digest(report(size=2), MARKS)
    assert content_digest({**report(), "status": {}}, MARKS) != content_digest(report(), MARKS)


@pytest.mark.parametrize("content", [{"metadata": []}, {"metadata": {"annotations": "x"}}, {"metadata": None}])
def test_malformed_metadata_is_named_and_no_crash(content: dict[str, Any]) -> None:
    if content["metadata"] is None:
        assert content_digest(content, MARKS) == content_digest({"metadata": {}}, MARKS)
    else:
        with pytest.raises(ValueError, match=r"^(metadata|annotations): found "):
            content_digest(content, MARKS)
