from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from situate.vpod.model.vpod import Placement
from situate.vpod.sources.status_patch import ScheduledCondition, condition_status, status_patch

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
EARLIER = "2026-11-21T11:00:00Z"
SCHEDULED = ScheduledCondition("ConsumersScheduled", scheduled=True)
SHORT = ScheduledCondition(
    "ConsumersScheduled", scheduled=False, reason="Schedule", message="0/1 pods can take 3 more: 1 full"
)


def source(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "resourceVersion": "7"}, "status": status}


@pytest.mark.rule("vpod:V5", "vpod:V20")
def test_placements_go_into_the_status_with_the_version_that_was_read() -> None:
    patch = status_patch(source(), "status.placements", [Placement("d-0", 2), Placement("d-1", 1)], None, NOW)

    assert patch == {
        "metadata": {"resourceVersion": "7"},
        "status": {"placements": [{"podName": "d-0", "vreplicas": 2}, {"podName": "d-1", "vreplicas": 1}]},
    }


def test_nothing_is_written_when_nothing_changes() -> None:
    written = {"type": "ConsumersScheduled", "status": "True", "lastTransitionTime": EARLIER}
    present = source(placements=[{"podName": "d-0", "vreplicas": 2}], conditions=[written])

    assert status_patch(present, "status.placements", [Placement("d-0", 2)], SCHEDULED, NOW) is None
    assert status_patch(source(), "status.placements", [], None, NOW) is None


def test_a_shortage_is_told_beside_the_conditions_of_others() -> None:
    ready = {"type": "Ready", "status": "True"}
    before = {"type": "ConsumersScheduled", "status": "True", "lastTransitionTime": EARLIER}
    patch = status_patch(source(conditions=[ready, before]), "status.placements", [], SHORT, NOW)

    assert patch is not None
    assert patch["status"]["conditions"] == [
        ready,
        {
            "type": "ConsumersScheduled",
            "status": "False",
            "lastTransitionTime": "2026-11-21T12:00:00Z",
            "reason": "Schedule",
            "message": "0/1 pods can take 3 more: 1 full",
        },
    ]


def test_another_message_does_not_count_as_a_transition() -> None:
    before = {"type": "ConsumersScheduled", "status": "False", "lastTransitionTime": EARLIER, "message": "other"}
    patch = status_patch(source(conditions=[before]), "status.placements", [], SHORT, NOW)

    assert patch is not None
    assert patch["status"]["conditions"][0]["lastTransitionTime"] == EARLIER


def test_emptied_placements_are_written_as_an_empty_list() -> None:
    patch = status_patch(source(placements=[{"podName": "d-0"}]), "status.placements", [], None, NOW)

    assert patch is not None
    assert patch["status"] == {"placements": []}


@pytest.mark.rule("vpod:B12")
@pytest.mark.parametrize("status", [None, 7, [], {"conditions": "x"}, {"conditions": [1, None]}, {"placements": 3}])
def test_a_hostile_status_is_replaced_where_it_is_ours(status: Any) -> None:
    patch = status_patch({"status": status}, "status.placements", [Placement("d-0", 1)], SHORT, NOW)

    assert patch is not None
    assert patch["status"]["placements"] == [{"podName": "d-0", "vreplicas": 1}]
    assert condition_status({"status": patch["status"]}, "ConsumersScheduled") == "False"


def test_an_absent_condition_is_unknown() -> None:
    assert condition_status(source(), "ConsumersScheduled") == "Unknown"
