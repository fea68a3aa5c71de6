"""What is said of an object in its conditions, and when it is worth a write."""

from __future__ import annotations

from typing import Any

import pytest

from situate.cluster.patch.patches import json_patch
from situate.sharding.assignment.conditions import archive_failed_write, verdict_write
from situate.sharding.model.actions import Write
from situate.sharding.model.decision_inputs import Verdict
from situate.sharding.model.names import Reason
from situate.sharding.model.object_view import ObjectView, view_of
from tests.sharding.builders import report, wall
from tests.sharding.deciding import ADAPTER, view

NOBODY = Verdict(False, Reason.NO_EXECUTORS, "no executor has a valid Lease")
FOREIGN = {"type": "Ready", "status": "True"}


def written(seen: ObjectView, write: Write | None) -> ObjectView:
    assert write is not None
    assert write.subresource == "status"
    after = json_patch(dict(seen.content), [dict(each) for each in write.operations])
    assert isinstance(after, dict)
    return view_of(after, ADAPTER)


def conditions(seen: ObjectView) -> list[Any]:
    found: list[Any] = seen.content["status"]["conditions"]
    return found


@pytest.mark.rule("sharding:B11")
def test_a_no_that_lasts_is_said_once() -> None:
    seen = view_of({**report(), "status": {"conditions": [FOREIGN, "rubbish"]}}, ADAPTER)
    told = written(seen, verdict_write(seen, NOBODY, wall(0)))
    assert conditions(told) == [
        FOREIGN,
        "rubbish",
        {
            "type": "Assigned",
            "status": "False",
            "reason": "NoExecutors",
            "message": "no executor has a valid Lease",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        },
    ]
    assert verdict_write(told, NOBODY, wall(60)) is None


def test_another_reason_is_said_and_is_no_transition() -> None:
    told = written(view(), verdict_write(view(), NOBODY, wall(0)))
    full = written(told, verdict_write(told, Verdict(False, Reason.NO_CAPACITY, "x" * 5000), wall(60)))
    (condition,) = conditions(full)
    assert (condition["reason"], condition["lastTransitionTime"]) == ("NoCapacity", "2026-01-01T00:00:00Z")
    assert len(condition["message"]) == 1024


@pytest.mark.rule("sharding:B1")
def test_a_yes_is_said_only_after_a_no() -> None:
    yes = Verdict(True, Reason.ASSIGNED)
    assert verdict_write(view(), yes, wall(0)) is None, "one write a placement"
    told = written(view(), verdict_write(view(), NOBODY, wall(0)))
    well = written(told, verdict_write(told, yes, wall(60)))
    (condition,) = conditions(well)
    assert (condition["status"], condition["lastTransitionTime"]) == ("True", "2026-01-01T00:01:00Z")
    assert verdict_write(well, yes, wall(90)) is None


def test_what_is_over_in_a_moment_is_not_written() -> None:
    assert verdict_write(view(), Verdict(False, Reason.JITTER, brief=True), wall(0)) is None
    assert verdict_write(view(), None, wall(0)) is None


def test_archiving_that_fails_is_said_and_taken_back() -> None:
    assert archive_failed_write(view(), None, wall(0)) is None
    told = written(view(), archive_failed_write(view(), "too large", wall(0)))
    (condition,) = conditions(told)
    assert (condition["type"], condition["status"], condition["message"]) == ("ArchiveFailed", "True", "too large")
    (over,) = conditions(written(told, archive_failed_write(told, None, wall(1))))
    assert over["status"] == "False"
