"""What is kept of a Kopf handler's calls, and how its patches are merged: plain calls."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from situate.sharding.executor.kopf_progress import Attempts, attempts_of, merge_patch, record_of, with_record

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
EARLIER = NOW - timedelta(hours=1)


def stored(record: Any) -> dict[str, Any]:
    return {"status": {"kopf": {"progress": {"build": record}}}}


def test_what_is_stored_is_found_again_beside_that_of_others() -> None:
    attempts = Attempts(EARLIER, 2)
    status = with_record({"phase": "Busy", "kopf": {"progress": {"other": {}}}}, "build", attempts.record("why"))
    assert record_of({"status": status}, "build")["message"] == "why"
    assert attempts_of({"status": status}, "build", NOW) == attempts
    assert with_record(status, "build", None) == {"phase": "Busy", "kopf": {"progress": {"other": {}}}}


def test_the_last_record_leaves_nothing_behind() -> None:
    assert with_record(stored({"retries": 1})["status"], "build", None) == {}


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param({}, Attempts(NOW), id="nothing"),
        pytest.param({"status": None}, Attempts(NOW), id="null"),
        pytest.param({"status": {"kopf": ["x"]}}, Attempts(NOW), id="another type"),
        pytest.param(stored("x"), Attempts(NOW), id="no record"),
        pytest.param(stored({"started": "soon", "retries": "3"}), Attempts(NOW), id="unreadable"),
        pytest.param(stored({"started": 7, "retries": True}), Attempts(NOW), id="wrong types"),
        pytest.param(stored({"started": "2030-01-01T00:00:00Z", "retries": -1}), Attempts(NOW), id="future"),
        pytest.param(stored({"started": "2026-01-01T11:00:00+00:00", "retries": 3}), Attempts(EARLIER, 3), id="Kopf's"),
    ],
)
def test_whatever_stands_there_is_read(content: dict[str, Any], want: Attempts) -> None:
    assert attempts_of(content, "build", NOW) == want


@pytest.mark.parametrize(
    ("document", "patch", "want"),
    [
        pytest.param({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"c": None}}, {"a": 1, "b": {"d": 2}}, id="removes"),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="a list is replaced"),
        pytest.param({"a": "text"}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="an object takes the place of a text"),
        pytest.param(None, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}, id="nothing there"),
    ],
)
def test_patches_are_merged_as_rfc_7386_says(document: Any, patch: dict[str, Any], want: dict[str, Any]) -> None:
    assert merge_patch(document, patch) == want
