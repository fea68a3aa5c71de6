from __future__ import annotations

from typing import Any

import pytest

from situate.cluster.errors.json_paths import values_at
from situate.cluster.read.table_cells import COLUMNS
from situate.cluster.read.table_pods import pod_cells
from situate.objects.values.durations import human_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (800 * 86400, "2y70d"),
        (3000 * 86400, "8y"),
    ],
)
def test_ages_are_kubectls(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


def container(ready: bool = True, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": "c", "ready": ready, "restartCount": restarts, "state": state or {"running": {}}}


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param({"status": {"phase": "Pending"}}, ["0/1", "Pending", "0"], id="pending"),
        pytest.param(
            {"status": {"phase": "Running", "containerStatuses": [container()]}}, ["1/1", "Running", "0"], id="running"
        ),
        pytest.param(
            {
                "status": {
                    "phase": "Running",
                    "containerStatuses": [container(False, 3, waiting={"reason": "CrashLoopBackOff"})],
                }
            },
            ["0/1", "CrashLoopBackOff", "3"],
            id="crashing",
        ),
        pytest.param(
            {"status": {"phase": "Failed", "containerStatuses": [container(False, terminated={"exitCode": 2})]}},
            ["0/1", "ExitCode:2", "0"],
            id="failed",
        ),
        pytest.param(
            {
                "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
                "status": {"phase": "Running", "containerStatuses": [container()]},
            },
            ["1/1", "Terminating", "0"],
            id="terminating",
        ),
        pytest.param(
            {"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}},
            ["0/1", "SchedulingGated", "0"],
            id="gated",
        ),
        pytest.param(
            {"status": {"phase": "Pending", "initContainerStatuses": [container(False, waiting={})]}},
            ["0/1", "Init:0/0", "0"],
            id="initializing",
        ),
    ],
)
def test_rows_of_pods(pod: dict[str, Any], want: list[str]) -> None:
    metadata = {"name": "p", **pod.get("metadata", {})}
    whole = {"spec": {"containers": [{"name": "c"}]}, **pod, "metadata": metadata}
    assert pod_cells(whole, lambda _: "1s")[1:4] == want


def test_rows_of_nodes() -> None:
    node = {
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/control-plane": ""}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "False"}], "nodeInfo": {"kubeletVersion": "v1"}},
    }
    assert COLUMNS["nodes"].cells(node, 0.0)[:5] == [
        "n",
        "NotReady,SchedulingDisabled",
        "control-plane",
        "<unknown>",
        "v1",
    ]


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (".spec.a", [1]),
        ("{.spec.a}", [1]),
        (".spec.list[1].x", [2]),
        (".spec.list[*].x", [1, 2]),
        ('.spec.list[?(@.n=="b")].x', [2]),
        (".metadata.labels.x\\.io/y", ["z"]),
        (".metadata.labels['x.io/y']", ["z"]),
        (".spec.none.deeper", []),
        (".spec.list[9].x", []),
        ("not a path", []),
    ],
)
def test_paths_of_columns(path: str, want: list[Any]) -> None:
    obj = {
        "spec": {"a": 1, "list": [{"n": "a", "x": 1}, {"n": "b", "x": 2}]},
        "metadata": {"labels": {"x.io/y": "z"}},
    }
    assert values_at(obj, path) == want
