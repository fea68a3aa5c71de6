"""What is written into the status of a pod, and what is not worth a write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from situate.objects.kinds.meta import Condition, ObjectMeta
from situate.objects.kinds.pods import Pod, PodStatus
from situate.scheduler.controller.pod_conditions import (
    POD_SCHEDULED,
    UNSCHEDULABLE,
    ConditionChange,
    StatusChange,
    status_patch,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REFUSED = ConditionChange(POD_SCHEDULED, "False", UNSCHEDULABLE, "0/3 nodes are available")
META = ObjectMeta(name="web", namespace="default", uid="u1", resource_version="7", generation=2)
TOLD = Pod(META, status=PodStatus(conditions=(Condition(POD_SCHEDULED, "False", UNSCHEDULABLE, REFUSED.message),)))
NEW = Pod(META)


def condition(**more: Any) -> dict[str, Any]:
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": REFUSED.message}
    return {**said, **more, "observedGeneration": 2}


@pytest.mark.parametrize(
    ("pod", "change", "want"),
    [
        pytest.param(
            NEW,
            StatusChange(REFUSED),
            {"conditions": [condition(lastTransitionTime="2026-01-01T00:00:00Z")]},
            id="the first refusal",
        ),
        pytest.param(TOLD, StatusChange(REFUSED), None, id="the same again"),
        pytest.param(
            TOLD,
            StatusChange(ConditionChange(POD_SCHEDULED, "False", UNSCHEDULABLE, "0/2 nodes")),
            {"conditions": [condition(message="0/2 nodes")]},
            id="other words are no transition",
        ),
        pytest.param(TOLD, StatusChange(REFUSED, "n1"), {"nominatedNodeName": "n1"}, id="promised a node"),
        pytest.param(TOLD, StatusChange(nominate=""), None, id="nothing to take back"),
        pytest.param(
            Pod(META, status=PodStatus(nominated_node_name="n1")),
            StatusChange(nominate=""),
            {"nominatedNodeName": None},
            id="a promise taken back",
        ),
    ],
)
def test_only_what_changes_is_written(pod: Pod, change: StatusChange, want: dict[str, Any] | None) -> None:
    patch = status_patch(pod, change, NOW)
    assert patch == (None if want is None else {"metadata": {"uid": "u1"}, "status": want})


def test_a_fence_always_changes_something_and_presumes_what_was_read() -> None:
    patch = status_patch(TOLD, StatusChange(REFUSED), NOW, fence=True)
    assert patch == {
        "metadata": {"uid": "u1", "resourceVersion": "7"},
        "status": {"conditions": [condition(lastProbeTime="2026-01-01T00:00:00Z")]},
    }


def test_two_changes_that_wait_become_one() -> None:
    assert StatusChange(nominate="n1").combine_with(StatusChange(REFUSED, "n2")) == StatusChange(REFUSED, "n1")
    assert StatusChange(REFUSED).combine_with(StatusChange(nominate="n2")) == StatusChange(REFUSED, "n2")
