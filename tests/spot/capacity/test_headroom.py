"""Room on demand for a wave (B24)."""

from __future__ import annotations

import pytest

from situate.spot.capacity.free_capacity import PlanningCapacity
from situate.spot.capacity.headroom import BALLOON, balloon_objects, displaced_pods, wave_capacity
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import Capacity, PodFacts
from tests.spot.builders import NODES, OD, SPOT, UNKNOWN, owner, pod, workload


class Counted(PlanningCapacity):
    """So many pods find a place on demand."""

    def __init__(self, left: int) -> None:
        self.left = left

    def fits(self, *_: object, **__: object) -> bool:
        return self.left > 0

    def after_move(self, pod: PodFacts, uid: str, capacity: Capacity) -> tuple[PlanningCapacity, str]:
        assert capacity is OD
        if not self.left:
            return self, ""
        return Counted(self.left - 1), "od"


@pytest.mark.rule("spot:B24")
def test_who_needs_a_place_when_nodes_end() -> None:
    given = [
        pod("a", "od", OD),
        pod("b", "spot", SPOT),
        pod("c", "spot", SPOT),
        pod("d", "risky", SPOT),
        pod("e", "", SPOT),
        pod("f", "bare", UNKNOWN),
    ]
    listed = [Workload(owner(6), 1, given)]
    assert [each.key.name for _, each in displaced_pods(listed, NODES)] == ["b", "c", "d", "f"]
    assert [each.key.name for _, each in displaced_pods(listed, NODES, largest_wave=1)] == ["b", "c"]
    assert displaced_pods([], NODES) == []


@pytest.mark.rule("spot:B24")
def test_room_for_the_largest_wave_is_what_one_pod_leaves_to_the_next() -> None:
    web, api = workload(1, "od:1 spot:3"), workload(0, "spot:2", name="api", uid="uid-api")
    found = wave_capacity(displaced_pods([web, api], NODES), Counted(4))
    assert (found.displaced, found.placed_count, found.missing) == (5, 4, 1)
    assert found.missing_for == {"Deployment shop/api": 1}
    assert [each.key.name for each in found.unplaced_pods] == ["spot-1"]
    assert wave_capacity([], Counted(0)).missing == 0


def test_pods_that_may_only_run_on_spot_never_find_a_place() -> None:
    pinned = workload(0, "spot:2", pinned=SPOT)
    assert wave_capacity(displaced_pods([pinned], NODES), Counted(9)).missing_for == {"Deployment shop/web": 2}


@pytest.mark.rule("spot:B24")
def test_balloons_are_of_the_lowest_priority_and_hold_on_demand_room() -> None:
    term = {"matchExpressions": [{"key": "node.kubernetes.io/capacity", "operator": "In", "values": ["on-demand"]}]}
    priority, deployment = balloon_objects("situate", 3, {"cpu": "500m"}, term, "situate:1")
    assert (priority["value"], priority["preemptionPolicy"]) == (-10, "Never")
    spec = deployment["spec"]
    assert (spec["replicas"], spec["template"]["metadata"]["labels"][BALLOON]) == (3, "true")
    pod = spec["template"]["spec"]
    assert pod["priorityClassName"] == priority["metadata"]["name"]
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [term]
    assert pod["containers"][0]["resources"] == {"requests": {"cpu": "500m"}}
    assert spec["template"]["metadata"]["labels"]["spot.situate.dev/mix"] == "disabled", "they are no workload of ours"
