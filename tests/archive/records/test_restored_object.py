"""The object that a record becomes again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from situate.archive.records.equality import Marks
from situate.archive.records.record import Record
from situate.archive.records.restored_object import CannotRestore, Owner, Restored, owners_of, restored
from tests.archive.reports import archived, report

pytestmark = pytest.mark.rule("sharding:K11")

OURS = Marks("x/archive", frozenset({"x/epoch", "x/term"}), frozenset({"x/executor"}))
LIVE = {"apiVersion": "v1", "kind": "Plan", "name": "p", "uid": "live"}
GONE = {"apiVersion": "v1", "kind": "Plan", "name": "q", "uid": "gone", "controller": True}


def unassigned(content: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**content, "spec": {key: value for key, value in content["spec"].items() if key != "assignedTo"}}


def record_with(metadata: dict[str, Any] | None = None, **content: Any) -> Record:
    made = report(assignedTo="worker-1", rows=3)
    return archived({**made, "metadata": {**made["metadata"], **(metadata or {})}, **content})


def restore(record: Record, **given: Any) -> Restored:
    return restored(record, OURS, unassigned, given.pop("present", {"live"}), **given)


def test_it_is_equal_but_for_what_only_the_archived_one_could_have() -> None:
    whole = {
        "uid": "u",
        "resourceVersion": "10",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "generation": 4,
        "managedFields": [{}],
        "deletionTimestamp": "2026-01-02T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
        "selfLink": "/",
        "generateName": "night",
        "finalizers": ["a/b", "x/archive"],
        "annotations": {"x/epoch": "3", "x/term": "1", "mine": "yes"},
        "labels": {"x/executor": "worker-1", "app": "reports"},
        "ownerReferences": [LIVE, GONE],
    }
    done = restore(record_with(whole, status={"completedAt": "2026-01-31T11:59:00Z"}))
    assert done.content == {
        "apiVersion": "batch.example.com/v1",
        "kind": "Report",
        "metadata": {
            "name": "nightly",
            "namespace": "ns1",
            "generateName": "night",
            "finalizers": ["a/b"],
            "annotations": {"mine": "yes"},
            "labels": {"app": "reports"},
            "ownerReferences": [LIVE],
        },
        "spec": {"rows": 3},
    }
    assert done.status == {"completedAt": "2026-01-31T11:59:00Z"}
    assert done.left_out == (Owner("v1", "Plan", "q", "gone"),)


def test_what_only_our_marks_were_in_goes_and_what_is_absent_stays_so() -> None:
    marked = {"finalizers": ["x/archive"], "annotations": {"x/epoch": "3"}, "labels": {"x/executor": "w"}}
    for record in (record_with(marked), record_with(), record_with({"annotations": None, "finalizers": None})):
        done = restore(record)
        assert done.content["metadata"] == {"name": "nightly", "namespace": "ns1"}
        assert done.status is None


def test_owners_are_kept_where_that_is_asked_for() -> None:
    record = record_with({"ownerReferences": [LIVE, GONE]})
    assert owners_of(record.object) == (Owner("v1", "Plan", "p", "live"), Owner("v1", "Plan", "q", "gone"))
    done = restore(record, present=None)
    assert (done.content["metadata"]["ownerReferences"], done.left_out) == ([LIVE, GONE], ())
    assert "ownerReferences" not in restore(record, present=()).content["metadata"]


def test_under_another_name_and_in_another_version() -> None:
    def convert(content: dict[str, Any]) -> dict[str, Any]:
        assert content["spec"]["assignedTo"] == "worker-1", "the object as it was archived"
        return {**content, "apiVersion": "batch.example.com/v2", "spec": {**content["spec"], "lines": 3}}

    record = record_with()
    done = restore(record, name="nightly-2", convert=convert)
    assert done.content["apiVersion"] == "batch.example.com/v2"
    assert done.content["metadata"]["name"] == "nightly-2"
    assert done.content["spec"] == {"rows": 3, "lines": 3}
    assert record.object == record_with().object, "the record stays as it is"


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param({"apiVersion": ""}, "converted apiVersion: found ''", id="version"),
        pytest.param({"kind": None}, "converted kind: found None", id="kind"),
        pytest.param({"metadata": []}, "converted metadata", id="metadata"),
        pytest.param({"metadata": {}}, "converted metadata", id="name"),
        pytest.param({"metadata": {"name": "a", "finalizers": "x"}}, "metadata.finalizers: found 'x'", id="finalizers"),
        pytest.param(
            {"metadata": {"name": "a", "ownerReferences": ["x"]}},
            "ownerReferences: found an entry that is not a map",
            id="owner",
        ),
        pytest.param({"status": "done"}, "status: found 'done'", id="status"),
    ],
)
def test_what_a_conversion_spoilt_is_told(change: dict[str, Any], want: str) -> None:
    with pytest.raises(CannotRestore, match=rf"ns1/nightly with UID uid-ns1-nightly: .*{want}"):
        restore(record_with(), convert=lambda content: {**content, **change})
