from __future__ import annotations

from typing import Any

import pytest

from situate.testing.vpod.builders import pod, state
from situate.vpod.state.ordered_ready import find_blocking_pod

READY: dict[str, Any] = {"ready": True}


@pytest.mark.parametrize(
    ("pods", "blocked"),
    [
        pytest.param([READY, READY, READY], None, id="all are there"),
        pytest.param([READY, READY, {"ready": False}], None, id="the last one is not ready: nothing is above it"),
        pytest.param([READY, {"node": "", "ready": False}, None], (1, "pending", 1), id="one is Pending"),
        pytest.param([READY, {"ready": False}, None], (1, "not ready", 1), id="one is not ready"),
        pytest.param([{"ready": None}, None, None], (0, "not ready", 2), id="nobody knows"),
        pytest.param([{**READY, "deleting": True}, READY, None], (0, "terminating", 1), id="one is going"),
        pytest.param([{**READY, "phase": "Failed"}, None, READY], (0, "failed", 1), id="one has failed"),
        pytest.param([READY, None, None], (1, "missing", 1), id="one cannot be created"),
        pytest.param([READY, {"ready": False}, READY], None, id="those above are there already"),
        pytest.param([], None, id="no pods at all"),
    ],
)
@pytest.mark.rule("vpod:B13")
def test_the_lowest_pod_that_is_not_ready_blocks_those_that_are_missing(
    pods: list[dict[str, Any] | None], blocked: tuple[int, str, int] | None
) -> None:
    kept = state(len(pods), 10)
    for ordinal, change in enumerate(pods):
        kept.remove_pod(f"set-{ordinal}", 0.0)
        if change is not None:
            kept.observe_pod(pod(ordinal, **change), 0.0)
    found = find_blocking_pod(kept)
    assert (None if found is None else (found.ordinal, str(found.cause), found.missing)) == blocked


def test_an_absurd_number_of_pods_costs_nothing() -> None:
    kept = state(2, 10)
    kept.observe_replicas(2**31 - 1, 0.0)
    found = find_blocking_pod(kept)
    assert found is not None
    assert "pods above it (podManagementPolicy OrderedReady)" in str(found)
