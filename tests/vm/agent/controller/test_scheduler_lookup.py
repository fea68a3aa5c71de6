"""Which pod grants permits (C17)."""

from __future__ import annotations

from typing import Any

import pytest

from situate.objects.kinds.pods import Pod
from situate.vm.agent.controller.scheduler_lookup import scheduler_address
from tests.vm.objects import pod


def scheduler(name: str, born: str, ip: str = "", ready: str = "True", **metadata: Any) -> Pod:
    conditions = [{"type": "Ready", "status": ready}]
    status = {"phase": "Running", "podIP": ip or f"10.0.0.{name}", "conditions": conditions}
    return pod(name, metadata={"creationTimestamp": f"2026-01-01T00:00:{born}Z", **metadata}, status=status)


@pytest.mark.rule("vm:C17")
@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([], None, id="there is none"),
        pytest.param([scheduler("1", "01"), scheduler("2", "02")], "10.0.0.2", id="the newest"),
        pytest.param([scheduler("1", "01"), scheduler("2", "02", ready="False")], "10.0.0.1", id="that is Ready"),
        pytest.param([scheduler("1", "01", ready="Unknown")], None, id="none is Ready"),
        pytest.param(
            [scheduler("1", "01"), scheduler("2", "02", deletionTimestamp="2026-01-01T00:01:00Z")],
            "10.0.0.1",
            id="and that stays",
        ),
        pytest.param([scheduler("2", "01"), scheduler("1", "01")], "10.0.0.2", id="of one age: the last by uid"),
    ],
)
def test_the_newest_ready_pod_is_asked(pods: list[Pod], want: str | None) -> None:
    assert scheduler_address(pods) == want
    assert scheduler_address(reversed(pods)) == want
