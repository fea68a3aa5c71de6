"""Where an object says to whom it is assigned and how it ended."""

from __future__ import annotations

import re
from typing import Any

import pytest

from situate.objects.values.timestamps import parse_time
from situate.sharding.model.field_paths import BadFieldPath, FieldPaths, UnreadableField
from tests.sharding.builders import WALL, report

PATHS = FieldPaths()


@pytest.mark.rule("sharding:K6", "sharding:K9")
def test_the_five_of_an_object() -> None:
    obj = report()
    assert PATHS.assigned_to(obj) is None
    assigned = PATHS.assign_to(obj, "a")
    assert (PATHS.assigned_to(assigned), assigned["spec"]["pages"]) == ("a", 3)
    assert PATHS.assign_to(assigned, None) == obj
    done = PATHS.complete(assigned, WALL, False)
    assert (PATHS.completed_at(done), PATHS.successful(done)) == (WALL, False)
    assert (PATHS.completed_at(assigned), PATHS.successful(assigned)) == (None, None)
    assert obj == report(), "what is passed in is never changed"


def test_other_paths() -> None:
    paths = FieldPaths("status.worker.name", "status.end.at", "status.end.well")
    done = paths.complete(paths.assign_to({}, "a"), WALL, True)
    assert done == {"status": {"worker": {"name": "a"}, "end": {"at": "2026-01-01T00:00:00Z", "well": True}}}
    assert paths.assign_to({}, None) == {}, "nothing is created to remove something from it"


@pytest.mark.parametrize(("value", "expected"), [(None, None), ("", None), ("a", "a"), ("n/a", "n/a")])
def test_absent_null_and_empty_are_unassigned(value: object, expected: str | None) -> None:
    assert PATHS.assigned_to({"spec": {"assignedTo": value}}) == expected
    assert PATHS.assigned_to({"spec": None}) is None


@pytest.mark.parametrize(
    ("obj", "read", "named"),
    [
        ({"spec": {"assignedTo": 3}}, "assigned_to", "spec.assignedTo is 3, allowed: the id of an executor"),
        ({"spec": {"assignedTo": "x" * 600}}, "assigned_to", "spec.assignedTo is"),
        ({"spec": [1]}, "assigned_to", "spec is [1], allowed: an object with the fields of spec.assignedTo"),
        (
            {"status": {"completedAt": "yesterday"}},
            "completed_at",
            'status.completedAt is "yesterday", allowed: a time',
        ),
        ({"status": {"completedAt": 12}}, "completed_at", "status.completedAt is 12, allowed: a time"),
        ({"status": {"successful": "yes"}}, "successful", 'status.successful is "yes", allowed: true and false'),
        ({"status": {"successful": 1}}, "successful", "status.successful is 1"),
    ],
)
def test_what_cannot_be_read_is_named(obj: dict[str, Any], read: str, named: str) -> None:
    named_object = {"kind": "Report", "metadata": {"namespace": "work", "name": "r"}, **obj}
    with pytest.raises(UnreadableField, match=re.escape(f"Report work/r: {named}")):
        getattr(PATHS, read)(named_object)
    with pytest.raises(UnreadableField, match="object"):
        getattr(PATHS, read)({**obj, "metadata": 7})


@pytest.mark.parametrize(
    ("paths", "named"),
    [
        (("assignedTo",), 'assigned_to_path is "assignedTo"'),
        (("spec..x",), 'assigned_to_path is "spec..x"'),
        (("metadata.labels",), "outside of apiVersion, kind, metadata"),
        (("spec.a", "status.x", "status.x"), "allowed: three fields of which none contains another"),
        (("spec.a", "status.x", "status.x.y"), 'successful_path is "status.x.y"'),
        ((3,), "assigned_to_path is 3"),
    ],
)
def test_paths_that_nobody_can_use_are_refused(paths: tuple[Any, ...], named: str) -> None:
    with pytest.raises(BadFieldPath, match=re.escape(named)):
        FieldPaths(*paths)


def test_a_time_with_a_zone_is_the_same_moment() -> None:
    obj = {"status": {"completedAt": "2026-01-01T02:00:00+02:00"}}
    assert PATHS.completed_at(obj) == parse_time("2026-01-01T00:00:00Z")
