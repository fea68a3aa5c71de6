"""Silent nodes: Unknown, taints, eviction at upstream's pace (reference kubernetes.md §4)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from situate.cluster.controllers.node.node_lifecycle import ZoneState, zone_state
from situate.cluster.controllers.node.nodes import nodes
from situate.cluster.controllers.node.pods import condition
from tests.cluster.controllers.world import World, deployment, pod

TOLERATIONS = [
    {"key": f"node.kubernetes.io/{kind}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for kind in ("not-ready", "unreachable")
]


def taints(world: World, node: str) -> set[tuple[str, str]]:
    found = world.get("nodes", node)
    assert found is not None
    return {
        (taint["key"].removeprefix("node.kubernetes.io/"), taint["effect"])
        for taint in found.get("spec", {}).get("taints", ())
    }


def ready(world: World, node: str) -> str:
    found = world.get("nodes", node)
    assert found is not None
    status = condition(found, "Ready")
    return status["status"] if status else ""


def first(world: World, holds: Any, limit: int = 600) -> int:
    """Seconds until something holds."""
    for second in range(limit):
        if holds():
            return second
        world.run(1)
    raise AssertionError(f"not within {limit} s")


def test_a_silent_node_becomes_unknown_and_is_tainted() -> None:
    world = World(node_count=4)
    world.create("pods", pod("a"))
    world.run(20)
    world.machinery.stop_kubelet("node-0")
    waited = first(world, lambda: ready(world, "node-0") == "Unknown")
    assert 40 <= waited <= 56
    world.run(1)
    assert ("unreachable", "NoSchedule") in taints(world, "node-0")
    first(world, lambda: ("unreachable", "NoExecute") in taints(world, "node-0"), 20)
    found = world.get("nodes", "node-0")
    assert found is not None
    told = condition(found, "Ready")
    assert told is not None
    assert (told["reason"], told["message"]) == ("NodeStatusUnknown", "Kubelet stopped posting node status.")


def test_a_node_that_comes_back_loses_its_taints_and_its_pods_are_ready_again() -> None:
    world = World(node_count=2)
    world.create("pods", {**pod("a"), "spec": {**pod("a")["spec"], "nodeName": "node-0", "tolerations": TOLERATIONS}})
    world.run(20)
    world.machinery.stop_kubelet("node-0")
    world.run(70)
    found = world.get("pods", "a")
    assert found is not None
    unready = condition(found, "Ready")
    assert unready is not None
    assert unready["status"] == "False"
    world.machinery.start_kubelet("node-0")
    world.run(10)
    assert ready(world, "node-0") == "True"
    assert taints(world, "node-0") == set()
    found = world.get("pods", "a")
    assert found is not None
    again = condition(found, "Ready")
    assert again is not None
    assert again["status"] == "True"


def test_the_annotation_silent_stops_the_kubelet_too() -> None:
    world = World(node_count=3)
    world.run(5)
    world.patch("nodes", "node-1", {"metadata": {"annotations": {"silent": "1"}}})
    world.run(70)
    assert ready(world, "node-1") == "Unknown"
    world.patch("nodes", "node-1", {"metadata": {"annotations": {"silent": None}}})
    world.run(5)
    assert ready(world, "node-1") == "True"


def test_pods_are_evicted_after_their_toleration_and_replaced() -> None:
    world = World(node_count=3)
    spec = deployment(replicas=3)
    spec["spec"]["template"]["spec"]["tolerations"] = TOLERATIONS
    world.create("deployments.apps", spec)
    world.run(20)
    world.machinery.stop_kubelet("node-0")
    world.run(70)
    assert all("deletionTimestamp" not in entry["metadata"] for entry in world.list("pods"))
    world.run(310)
    gone = [entry for entry in world.list("pods") if "deletionTimestamp" in entry["metadata"]]
    assert [entry["spec"]["nodeName"] for entry in gone] == ["node-0"], "nobody there to end it"
    assert condition(gone[0], "DisruptionTarget") is not None
    living = [entry for entry in world.list("pods") if "deletionTimestamp" not in entry["metadata"]]
    assert len(living) == 3
    assert all(entry["spec"]["nodeName"] != "node-0" for entry in living)


@pytest.mark.parametrize(
    ("tolerations", "stays"),
    [
        pytest.param([], False, id="no toleration"),
        pytest.param([{"operator": "Exists"}], True, id="everything tolerated"),
        pytest.param([{"key": "gone", "operator": "Exists", "effect": "NoExecute"}], True, id="tolerated for ever"),
        pytest.param([{"key": "gone", "operator": "Equal", "value": "other"}], False, id="another value"),
        pytest.param([{"key": "gone", "operator": "Exists", "tolerationSeconds": 0}], False, id="for no time"),
    ],
)
def test_no_execute_taints_of_users(tolerations: list[dict[str, Any]], stays: bool) -> None:
    world = World(node_count=1)
    made = pod("a")
    made["spec"] = {**made["spec"], "tolerations": tolerations}
    world.create("pods", made)
    world.run(5)
    world.patch("nodes", "node-0", {"spec": {"taints": [{"key": "gone", "value": "yes", "effect": "NoExecute"}]}})
    world.run(5)
    assert (world.pods() == ["a"]) is stays


def test_a_taint_that_goes_in_time_spares_the_pod() -> None:
    world = World(node_count=1)
    made = pod("a")
    made["spec"] = {**made["spec"], "tolerations": [{"key": "x", "operator": "Exists", "tolerationSeconds": 60}]}
    world.create("pods", made)
    world.run(5)
    taint = {"key": "x", "effect": "NoExecute"}
    world.patch("nodes", "node-0", {"spec": {"taints": [taint]}})
    world.run(50)
    world.patch("nodes", "node-0", {"spec": {"taints": None}})
    world.run(5)
    world.patch("nodes", "node-0", {"spec": {"taints": [taint]}})
    world.run(50)
    assert world.pods() == ["a"], "the wait begins anew"
    world.run(20)
    assert world.pods() == []


def test_cordon_and_uncordon() -> None:
    world = World(node_count=1)
    world.run(5)
    world.patch("nodes", "node-0", {"spec": {"unschedulable": True}})
    world.run(1)
    assert taints(world, "node-0") == {("unschedulable", "NoSchedule")}
    world.patch("nodes", "node-0", {"spec": {"unschedulable": None}})
    world.run(1)
    assert taints(world, "node-0") == set()


def test_one_node_per_ten_seconds_and_zone_is_evicted() -> None:
    world = World(node_count=0)
    for node in nodes(8, zones=["a", "b"]):
        world.create("nodes", node)
    world.run(20)
    lost = ["node-0", "node-2", "node-1"]
    for name in lost:
        world.machinery.stop_kubelet(name)
    times: dict[str, int] = {}
    for second in range(120):
        world.run(1)
        for name in lost:
            if name not in times and ("unreachable", "NoExecute") in taints(world, name):
                times[name] = second
    assert times.keys() == set(lost)
    assert abs(times["node-0"] - times["node-2"]) >= 9, "one zone"
    assert min(abs(times["node-1"] - times[name]) for name in ("node-0", "node-2")) <= 1, "the other zone"


def test_nothing_is_evicted_when_every_node_is_silent() -> None:
    world = World(node_count=3)
    world.create("pods", pod("a"))
    world.run(20)
    for number in range(3):
        world.machinery.stop_kubelet(f"node-{number}")
    world.run(400)
    assert all(ready(world, f"node-{number}") == "Unknown" for number in range(3))
    assert all(effect == "NoSchedule" for number in range(3) for _, effect in taints(world, f"node-{number}"))
    assert world.pods() == ["a"]


def test_no_more_evictions_when_most_of_a_small_zone_is_silent() -> None:
    world = World(node_count=5)
    world.run(20)
    for number in range(3):
        world.machinery.stop_kubelet(f"node-{number}")
    world.run(400)
    tainted = [n for n in range(5) if ("unreachable", "NoExecute") in taints(world, f"node-{n}")]
    assert tainted == []


def test_a_large_zone_that_is_half_silent_loses_a_node_each_hundred_seconds() -> None:
    """Of more than fifty nodes."""
    world = World(node_count=51)
    world.run(20)
    for number in range(30):
        world.machinery.stop_kubelet(f"node-{number}")
    times: list[float] = []
    for second in range(400):
        world.run(1)
        tainted = sum(("unreachable", "NoExecute") in taints(world, f"node-{number}") for number in range(30))
        times += [second] * (tainted - len(times))
    # The first falls in the moment in which only few have been found silent.
    assert [round(later - earlier, -1) for earlier, later in itertools.pairwise(times)] == [100] * (len(times) - 1)
    assert len(times) in (3, 4)


@pytest.mark.parametrize(
    ("silent", "count", "want"),
    [
        (0, 3, ZoneState.NORMAL),
        (2, 3, ZoneState.NORMAL),
        (3, 3, ZoneState.FULL),
        (1, 1, ZoneState.FULL),
        (3, 5, ZoneState.PARTIAL),
        (5, 10, ZoneState.NORMAL),
        (6, 10, ZoneState.PARTIAL),
    ],
)
def test_state_of_a_zone(silent: int, count: int, want: ZoneState) -> None:
    assert zone_state(silent, count, 0.55) is want


def test_pods_of_a_deleted_node_are_collected_after_quarantine() -> None:
    world = World(node_count=1)
    world.create("pods", pod("a"))
    world.run(5)
    world.delete("nodes", "node-0")
    world.run(35)
    assert world.pods() == ["a"]
    world.run(10)
    assert world.pods() == []


def test_pods_of_a_node_out_of_service_are_removed() -> None:
    world = World(node_count=2)
    world.create("pods", {**pod("a"), "spec": {**pod("a")["spec"], "nodeName": "node-0"}})
    world.run(5)
    world.machinery.stop_kubelet("node-0")
    world.run(70)
    world.delete("pods", "a") if world.get("pods", "a") and "deletionTimestamp" not in world.list("pods")[0][
        "metadata"
    ] else None
    world.run(60)
    assert world.pods() == ["a"]
    found = world.get("nodes", "node-0")
    assert found is not None
    out = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    world.patch("nodes", "node-0", {"spec": {"taints": [*found["spec"]["taints"], out]}})
    world.run(2)
    assert world.pods() == []
