"""What the README of knative's vectors allows and no file of ours shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.knative import RUNNERS
from tests.conformance.outcome import Outcome, attempted
from tests.conformance.remarks import without_remarks


def run(file: str, case: dict[str, Any]) -> Outcome:
    return attempted(RUNNERS[file], without_remarks(case))


def placed(*vreplicas: int) -> list[dict[str, Any]]:
    return [{"pod": f"statefulset-name-{ordinal}", "vreplicas": n} for ordinal, n in enumerate(vreplicas) if n]


def vpod(vreplicas: int, *held: int, key: str = "a/b") -> dict[str, Any]:
    return {"key": key, "vreplicas": vreplicas, "placements": placed(*held)}


FOREIGN = [{"pod": "other-0", "vreplicas": 7}]


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"replicas": 3, "vpod": vpod(4, 4, 4, 4)},
                     {"placements": placed(4), "ha_placements": placed(2, 1, 1), "note": "a mode", "why": "safer"},
                     id="a better mode beside the compatible one"),
        pytest.param({"replicas": 3, "vpod": vpod(12, 4, 4, 4), "steps": ["set vreplicas to 3 and schedule"]},
                     {"ha_placements": placed(1, 1, 1)}, id="a better mode alone, by steps"),
        pytest.param({"replicas": 3, "min_replicas": 3, "vpods": "20 resources with 1 vreplica each",
                      "steps": ["schedule all", "autoscale", "repeat 3 times"]},
                     {"failed_resources": 0, "converges": True}, id="resources with vreplicas"),
        pytest.param({"replicas": 10, "vpods": "4 vpods of 5 vreplicas each"},
                     {"left": 0, "failed_resources": []}, id="vpods of vreplicas"),
        pytest.param({"replicas": 2, "vpod": {"key": "a/b", "vreplicas": 7, "placements": FOREIGN}},
                     {"free_cap": [10, 10], "placements": placed(4, 3)}, id="free_cap of the statuses that are given"),
        pytest.param({"replicas": 2, "vpod": vpod(7), "steps": ["schedule"]},
                     {"free_cap": [6, 7], "pending": {"a/b": 0}}, id="free_cap after the steps"),
        pytest.param({"vpod": vpod(3), "pods": [{"name": "statefulset-name-0", "node": "n"},
                                                {"name": "statefulset-name-1", "node": ""}]},
                     {"placements": placed(3), "schedulable_pods": [0]}, id="replicas follow from the pods"),
        pytest.param({"replicas": 1, "vpod": vpod(3), "capacity": None},
                     {"placements": placed(3), "panic": False}, id="capacity left out"),
        pytest.param({"replicas": 1, "capacity": 0, "vpod": vpod(3)},
                     {"panic": False, "error": True, "left": 3, "placements": None, "note": "refused"},
                     id="no capacity"),
        pytest.param({"replicas": 2, "vpod": vpod(6),
                      "steps": ["schedule (fills both)", "schedule again", "repeat once"]},
                     {"placements": placed(3, 3)}, id="remarks in steps"),
        pytest.param({"replicas": 1, "vpods": [vpod(2, key="a/a"), vpod(9, key="a/b")],
                      "steps": ["schedule a/a", "schedule a/b", "set vreplicas of a/b to 8, then schedule"]},
                     {"a/b_placed": 8, "used_on_pod_0": 10, "failed_resources": 0}, id="steps that name a vpod"),
        pytest.param({"replicas": 1, "vpod": vpod(5, 5),
                      "steps": ["demote", "promote with a leader-aware autoscaler attached (twice)",
                                "schedule every vpod"]},
                     {"reserved_after_promote": {"a/b": {"statefulset-name-0": 5}}, "placements": placed(5)},
                     id="promotion"),
    ],
)  # fmt: skip
def test_scenarios(given: dict[str, Any], expected: dict[str, Any]) -> None:
    scenario = {key: value for key, value in {"capacity": 10, **given}.items() if value is not None}
    case = {"id": "s", "action": "scenario", "input": scenario, "expected": expected}
    assert run("divergences.json", case).verdict == "passed", run("divergences.json", case)
    for key in expected.keys() - {"note", "why", "reserved_after_promote"}:
        wrong = {**case, "expected": {**expected, key: [77]}}
        assert run("divergences.json", wrong).verdict == "failed", f"{key} was not looked at"


@pytest.mark.finding("R1")
@pytest.mark.parametrize("file", ["divergences.json", "scheduler.json"])
def test_a_statefulset_of_another_name(file: str) -> None:
    pods = [{"name": f"my-set-{ordinal}", "node": "n"} for ordinal in range(2)]
    given = {"replicas": 2, "capacity": 10, "pods": pods, "vpod": {"key": "a/b", "vreplicas": 3}}
    action = "scenario" if file == "divergences.json" else "schedule"
    held = [{"pod": "my-set-0", "vreplicas": 2}, {"pod": "my-set-1", "vreplicas": 1}]
    assert run(file, {"action": action, "input": given, "expected": {"placements": held}}).verdict == "passed"


POLICY = {"predicates": [], "priorities": [{"name": "LowestOrdinalPriority", "weight": 1, "args": None}]}


@pytest.mark.finding("R1")
def test_scenarios_of_the_policy_mode() -> None:
    given = {"version": "v0.43.0", "replicas": 3, "capacity": 10, "scheduler_policy": POLICY, "vpod": vpod(12)}
    expected = {"placements": placed(10, 2), "error": False, "total": 12, "left": 0, "panic": False}
    assert run("divergences.json", {"action": "scenario", "input": given, "expected": expected}).verdict == "passed"


NODES = [{"name": "n0", "zone": "z0"}]
PODS = [{"name": "s-0", "node": "n0"}]


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    ("file", "case"),
    [
        pytest.param("scale_cache.json",
                     {"action": "sequence", "input": {"refresh_period_seconds": 10, "backend": {
                         "spec_replicas": 3, "status_replicas": 2, "resource_version": "7"}},
                      "expected": {"steps": [
                          {"op": "get", "result": {"spec": 3, "status": 2, "resource_version": "7"}, "note": "a read"},
                          {"op": "get", "result": {"spec": 3, "status": 2, "resource_version": ""}, "backend_gets": 1},
                          {"op": "backend_set", "spec": 9}, {"op": "sleep", "seconds": 11},
                          {"op": "backend_fail_gets"}, {"op": "get", "error": True, "backend_gets": 2},
                          {"op": "backend_ok_gets"}, {"op": "get", "error": False, "result": {"spec": 9}},
                          {"op": "backend_fail_updates"}, {"op": "update", "spec": 1, "error": True},
                          {"op": "get", "result": {"spec": 9}, "backend_gets": 3}, {"op": "backend_ok_updates"},
                          {"op": "update", "spec": 4, "error": False, "backend_updates": 2},
                          {"op": "get", "result": {"spec": 4}}, {"op": "reset"}, {"op": "get", "backend_gets": 4}]}},
                     id="every op of the cache"),
        pytest.param("evictor.json",
                     {"action": "evict",
                      "input": {"consumer_group_exists": False, "evict": {"pod": "p", "vreplicas": 1}},
                      "expected": {"error": False, "placements_after": None, "patched": False}}, id="no group"),
        pytest.param("evictor.json",
                     {"action": "evict", "input": {"condition_ConsumersScheduled": "False",
                                                   "status_placements": placed(1), "evict": placed(1)[0]},
                      "expected": {"patched": False, "placements_after": placed(1)}}, id="not scheduled"),
        pytest.param("vpod_adapters.json",
                     {"action": "vreplicas", "input": {"kind": "KafkaSource", "replicas_or_consumers": None},
                      "expected": {"value": 1}}, id="unset is 1"),
        pytest.param("plugin_status.json",
                     {"action": "status", "input": {"code": None, "reasons": None},
                      "expected": {"code": "success", "is_success": True, "message": ""}}, id="no status"),
        pytest.param("plugin_status.json",
                     {"action": "merge", "input": {"statuses": {}}, "expected": {"code": "success"}},
                     id="nothing merged"),
        pytest.param("placement_helpers.json",
                     {"action": "placement_for_pod", "input": {"placements": placed(1, 2), "pod": "statefulset-name-1"},
                      "expected": {"value": {"pod": "statefulset-name-1", "vreplicas": 2}}}, id="a placement"),
        pytest.param("reserve_placements.json",
                     {"action": "reserve", "input": {"vpod": vpod(1), "reserve_sequence": [placed(1), None]},
                      "expected": {"reserved_for_vpod_on_main": None, "leader_after_demote": False}}, id="part of it"),
        pytest.param("state_nodes_zones.json",
                     {"action": "build_state", "input": {"statefulset": "s", "replicas": 1, "capacity": 5, "pods": PODS,
                                                         "nodes": NODES, "vpods": []},
                      "expected": {"free_cap": [5], "num_zones": 1, "last_ordinal": 0}}, id="some fields of a state"),
        pytest.param("compactor_policy.json",
                     {"action": "may_compact", "input": {"statefulset": "s", "replicas": 1, "capacity": 5, "pods": PODS,
                                                         "nodes": NODES, "vpods": None},
                      "expected": {"evictions": None}},
                     id="leader unless said"),
        pytest.param("autoscaler.json",
                     {"action": "autoscale", "input": {"replicas": 3, "vpods": [vpod(5)], "is_leader": False,
                                                       "attempt_scale_down": True}, "expected": {"replicas": 3}},
                     id="a follower"),
        pytest.param("scheduler_policy.json",
                     {"action": "schedule", "input": {"statefulset": "s", "replicas": 1, "capacity": 5, "pods": PODS,
                                                      "nodes": NODES, "vpod": {"key": "a/b", "vreplicas": 2},
                                                      "scheduler_policy": POLICY},
                      "expected": {"placements": [{"pod": "s-0", "vreplicas": 2}],
                                   "reserved": {"a/b": {"s-0": 2}, "a/c": {}}}}, id="empty inner maps"),
    ],
)  # fmt: skip
def test_optional_parts(file: str, case: dict[str, Any]) -> None:
    assert run(file, case).verdict == "passed", run(file, case)
