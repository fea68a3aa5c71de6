from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.cluster.errors.field_errors import Refused
from situate.cluster.patch.patches import json_patch
from situate.vpod.sources.evictor import eviction_patch, may_evict


def group(placements: list[Any], scheduled: str | None = "True") -> dict[str, Any]:
    conditions = [] if scheduled is None else [{"type": "ConsumersScheduled", "status": scheduled}]
    return {"status": {"placements": placements, "conditions": conditions}}


@pytest.mark.rule("vpod:V15", "vpod:V28")
@pytest.mark.parametrize(("status", "want"), [("True", True), ("False", False), ("Unknown", False), (None, False)])
def test_only_what_is_scheduled_is_evicted(status: str | None, want: bool) -> None:
    assert may_evict(group([], status)) is want


@given(st.lists(st.sampled_from(["set-0", "set-1", "set-2"]).map(lambda pod: {"podName": pod, "vreplicas": 2})))
@pytest.mark.rule("vpod:V15")
def test_the_patch_removes_every_placement_on_the_pod_and_no_other(placements: list[dict[str, Any]]) -> None:
    content = group(placements)
    patch = eviction_patch(content, "set-1")
    after = json_patch(content, patch)
    assert isinstance(after, dict)
    assert after["status"]["placements"] == [each for each in placements if each["podName"] != "set-1"]
    assert bool(patch) is (after != content)


def test_the_patch_fails_where_the_status_has_changed_meanwhile() -> None:
    patch = eviction_patch(group([{"podName": "set-1", "vreplicas": 2}]), "set-1")
    assert isinstance(json_patch(group([{"podName": "set-0", "vreplicas": 2}]), patch), Refused)


def test_paths_are_escaped() -> None:
    content = {"a/b~c": [{"podName": "set-1"}]}
    assert [each["path"] for each in eviction_patch(content, "set-1", "a/b~c")] == ["/a~1b~0c/0"] * 2
