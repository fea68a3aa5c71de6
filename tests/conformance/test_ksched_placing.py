"""The runners of assignment.json, hashing.json and rebalance.json can fail, and know more than our cases need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.runner import VECTORS, run_file

Json = Any
FOLDER = VECTORS / "ksched"


def verdicts(folder: Path, file: str, document: Json) -> list[tuple[str, str]]:
    path = folder / file
    path.write_text(json.dumps(document))
    report = run_file(path, "ksched")
    assert not report.error
    return [(result.outcome.verdict, result.outcome.detail) for result in report.results]


def healthy(*executors: str) -> list[Json]:
    return [{"observe": {"executor": executor, "status": "Healthy"}} for executor in executors]


def metrics(values: dict[str, Json], age_s: float = 0) -> list[Json]:
    return [
        {"metrics": {"executor": executor, "values": {"cpu": value}, "age_s": age_s}}
        for executor, value in values.items()
    ]


CPU = {"params": {"weights": {"cpu": 1}, "max_age_s": 60}}


@pytest.mark.rule("sharding:K7", "sharding:K13")
@pytest.mark.parametrize(
    ("algorithm", "steps"),
    [
        pytest.param("Random", [*healthy("a", "b"), {"choose": {
            "times": 2000, "any_of": ["a", "b"], "count_between": [880, 1120]}}], id="random, within limits"),
        pytest.param("RoundRobin", [*healthy("a", "b", "c"), {"choose": {
            "times": 6, "exact": ["c", "b", "a"] * 2, "healthy": ["a", "b", "c"], "fair": "windows"}}],
            id="another order that is fair"),
        pytest.param("RoundRobin", [{"observe": {"executor": "a", "status": "Full"}},
                                    {"choose": {"times": 3, "error": "NoHealthyExecutors"}}], id="full is known"),
        pytest.param("MinScheduled", [*healthy("a", "b", "c"), {"choose_and_schedule": {
            "times": 9, "final_open": {"a": 3, "b": 3, "c": 3}, "max_count_any": 3, "min_count_any": 3}}],
            id="spread"),
        pytest.param("MinScheduled", [*healthy("a", "b"), {"capacity": {"a": 1, "b": 4}}, {"choose_and_schedule": {
            "times": 5, "final_open": {"a": 1, "b": 4}}}, {"choose": {"times": 1, "error": "NoCapacity"}}],
            id="by capacity"),
        pytest.param("MinScheduled", [{"capacity": {"a": 1}}, {"choose": {"times": 1, "error": "NoExecutors"}},
                                      *healthy("a"), {"choose_and_schedule": {"times": 1, "max_count": {"a": 1}}},
                                      {"choose": {"times": 1, "error": "NoCapacity"}}], id="capacity told first"),
        pytest.param("MinScheduled", [*healthy("a", "b"), {"scheduled": {"object": "o", "executor": "a"}},
                                      {"deleted": {"object": "o"}}, {"deleted": {"object": "o"}},
                                      {"completed": {"object": "o"}}, {"state": {"assigned_open": {"b": 1}}},
                                      {"choose": {"times": 4, "any_of": ["a"]}}], id="one place, freed once"),
        pytest.param("MinScheduled", [*healthy("a", "b"), {"scheduled": {"object": "o", "executor": "a"}},
                                      {"scheduled": {"object": "o", "executor": "b"}},
                                      {"choose": {"times": 4, "any_of": ["a"]}}], id="moved"),
        pytest.param("MinScheduled", [*healthy("a", "b"), {"state": {"assigned_open": {"a": 3, "b": 4}}},
                                      {"state": {"assigned_open": {"a": 5}}},
                                      {"choose": {"times": 4, "any_of": ["b"]}}], id="a state replaces a state"),
        pytest.param("MinScheduled", [*healthy("a", "b", "new"), {"params": {"slow_start_max_share": 0.2}},
                                      {"state": {"assigned_open": {"a": 50, "b": 50}}},
                                      {"choose_and_schedule": {"times": 20, "max_count": {"new": 4},
                                                               "min_count": {"new": 4}}}], id="slow start"),
        pytest.param("MinMetricScore", [*healthy("a", "b"), CPU, *metrics({"a": 0.2, "b": 0.3}),
                                        {"params": {"per_object_estimate": 0.1}},
                                        {"choose_and_schedule": {"times": 5, "metrics_unchanged": True,
                                                                 "final_open": {"a": 3, "b": 2}}}], id="no herd"),
        pytest.param("MinMetricScore", [*healthy("a", "b"), CPU, {"params": {"per_object_estimate": {"cpu": 0.5}}},
                                        {"state": {"assigned_open": {"a": 9}}}, *metrics({"a": 0.2, "b": 0.3}, 20),
                                        {"choose": {"times": 3, "any_of": ["a"]}}], id="a sample includes what was"),
        pytest.param("MinMetricScore", [*healthy("a", "b"), CPU, *metrics({"a": "Infinity", "b": 0.9}),
                                        {"choose": {"times": 3, "any_of": ["b"]}}], id="no number"),
        pytest.param("MinMetricScore", [*healthy("a", "b"), {"params": {"weights": {"cpu": 1}, "fallback": "none"}},
                                        *metrics({"a": 0.1}, 61), {"choose": {
                                            "times": 1, "error": "NoHealthyExecutors", "alt_error": "NoMetrics"}}],
                     id="no metrics"),
        pytest.param("MinMetricScore", [*healthy("a", "b"), CPU, {"state": {"assigned_open": {"a": 1}}},
                                        {"choose": {"times": 2, "any_of": ["b"]}}], id="falls back"),
        pytest.param("MinMetricScore", [*metrics({"a": 0.1, "b": 0.2}), *healthy("a", "b"), CPU,
                                        {"choose": {"times": 2, "any_of": ["a"]}},
                                        *metrics({"a": 0.1}, 60.5), {"choose": {"times": 2, "any_of": ["b"]}}],
                     id="metrics told first, then they grow old"),
    ],
)  # fmt: skip
def test_steps_that_the_language_has_and_no_case_of_ours(tmp_path: Path, algorithm: str, steps: list[Json]) -> None:
    case = {"id": "x", "basis": "required", "algorithm": algorithm, "steps": steps}
    assert verdicts(tmp_path, "assignment.json", {"cases": [case]}) == [("passed", "")]


@pytest.mark.parametrize(
    ("algorithm", "step", "detail"),
    [
        ("RoundRobin", {"dance": {}}, "unknown operation"),
        ("Astrology", {"choose": {"times": 1, "any_of": ["a"]}}, "unknown operation"),
        ("RoundRobin", {"observe": {"executor": "a", "status": "Tired"}}, "unknown operation"),
        ("RoundRobin", {"choose": {"times": 1, "colour": "red"}}, "unknown operation"),
        ("RoundRobin", {"choose": {"times": 1, "error": "NoCoffee"}}, "unknown operation"),
        ("RoundRobin", {"choose": {"times": 1, "error": "NoExecutors"}}, "chose a, expected NoExecutors"),
        ("RoundRobin", {"choose": {"times": 2, "any_of": ["b"]}}, "chose ['a', 'b']"),
        ("RoundRobin", {"choose": {"times": 3, "exact": ["b", "b", "b"], "healthy": ["a", "b", "c"]}}, "chose"),
        ("RoundRobin", {"choose_and_schedule": {"times": 4, "final_open": {"a": 4, "b": 0}}}, "are open, expected"),
        ("RoundRobin", {"choose_and_schedule": {"times": 4, "max_count": {"a": 1}}}, "a got 2, expected at most 1"),
        ("RoundRobin", {"choose_and_schedule": {"times": 4, "min_count_any": 3}}, "expected at least 3"),
        ("MinMetricScore", {"params": {"mood": 1}}, "unknown operation"),
    ],
)
def test_an_assignment_that_is_wrong_or_not_known_fails(
    tmp_path: Path, algorithm: str, step: Json, detail: str
) -> None:
    case = {"id": "x", "basis": "code", "algorithm": algorithm, "steps": [*healthy("a", "b"), step]}
    ((verdict, said),) = verdicts(tmp_path, "assignment.json", {"cases": [case]})
    assert verdict == "failed"
    assert detail in said


def hashing() -> Json:
    return json.loads((FOLDER / "hashing.json").read_text())


def test_every_group_of_hashing_can_fail(tmp_path: Path) -> None:
    document = hashing()
    document["fnv1a64"]["vectors"][0]["partition"]["64"] = 51
    document["fnv1a64"]["vectors"][1]["fnv1a64"] = "0x7718f1b2f3cdd332"
    document["ranges"]["by_n"]["2"][1]["end"] = "0xffffffffffffffff"
    document["repartition_moved_fraction"]["rows"][0]["equal_ranges"] = 0.4
    document["namespace_skew"]["fnv1a64_equal_ranges"]["4"] = [25, 25, 25, 25]
    document["ring"]["vectors"][3]["owner_4"] = document["ring"]["vectors"][3]["owner_3"]
    document["ring_token_collision"]["examples"][0]["candidates"] = ["executor-2"]
    document["movement_properties"]["cases"][0]["expect"]["moved_fraction_between"] = [0.5, 0.6]
    document["shard_lease_states"][0]["state"] = "ready"
    document["shard_lease_states"][10]["new_work_allowed_required"] = False
    document["astrology"] = {"basis": "required"}
    found = [verdict for verdict, _ in verdicts(tmp_path, "hashing.json", document)]
    assert found.count("failed") == 11


def test_what_hashing_says_in_other_words_is_skipped(tmp_path: Path) -> None:
    document = {
        "movement_properties": {"basis": "computed", "cases": [
            {"id": "x", "nodes": 3, "keys": 10, "operation": "shake", "expect": {}}]},
        "namespace_skew": {"keys": "all the teams"},
        "shard_lease_states": [{**hashing()["shard_lease_states"][10], "note": "its clock is odd"}],
    }  # fmt: skip
    assert [verdict for verdict, _ in verdicts(tmp_path, "hashing.json", document)] == ["skipped"] * 3


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        ({"group": "unit_objects", "current": {"a": 4}, "removed": [], "joined": ["b"],
          "even": {"goal": "max-min <= 1", "min_moves": 2, "final_counts_sorted": [2, 2]}}, "passed"),
        ({"group": "unit_objects", "current": {"a": 4}, "removed": [], "joined": ["b"],
          "even": {"goal": "max-min <= 1", "min_moves": 1}}, "failed"),
        ({"group": "unit_objects", "current": {"a": 4}, "removed": [], "joined": [],
          "odd": {"goal": "max-min > 1"}}, "failed"),
        ({"group": "weighted", "object_loads": [3, 2.5, 2], "current": ["gone", "a", "a"], "live": ["a", "b"],
          "max_load_allowed": 5, "min_moves": 1, "feasible": True}, "passed"),
        ({"group": "weighted", "object_loads": [6, 1], "current": ["a", "a"], "live": ["a", "b"],
          "max_load_allowed": 5, "min_moves": None, "feasible": False}, "passed"),
        ({"group": "weighted", "object_loads": [3, 2], "current": ["a", "a"], "live": ["a", "b"],
          "max_load_allowed": 5, "min_moves": 1, "feasible": True}, "failed"),
        ({"group": "properties", "setup": "everybody leaves", "bound": "nobody cries"}, "skipped"),
        ({"group": "astrology"}, "failed"),
    ],
)  # fmt: skip
def test_rebalancing(tmp_path: Path, case: Json, verdict: str) -> None:
    """With the basis `computed`: a case that is only proposed would be printed apart."""
    document = {case["group"]: [{"id": "x", "basis": "computed", **{k: v for k, v in case.items() if k != "group"}}]}
    assert [found for found, _ in verdicts(tmp_path, "rebalance.json", document)] == [verdict]


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    ("algorithm", "steps", "verdict"),
    [
        pytest.param("MinScheduled", [*healthy("a", "b"), {"state": {"assigned_open": {"a": 3}}, "note": "a remark"},
                                      {"choose": {"any_of": ["b"], "never": ["a"], "why": "it has more"}}], "passed",
                     id="once, and never another"),
        pytest.param("MinScheduled", [*healthy("a", "b"), {"choose_and_schedule": {"times": 2, "never": ["a"]}}],
                     "failed", id="never, and it is chosen"),
        pytest.param("MinScheduled", [*healthy("a"), {"capacity": {"a": 0}}, {"choose_and_schedule": {
            "error": "NoHealthyExecutors", "alt_error": "NoCapacity"}}], "passed", id="nowhere to schedule"),
        pytest.param("MinScheduled", [*healthy("a", "b"), {"observe": {"executor": "a", "status": "Unhealthy"}},
                                      {"supervisor_restart": {"listed_objects": [{"object": "o", "executor": "b"}]}},
                                      {"choose": {"times": 3, "any_of": ["b"], "never": ["a"]}}], "passed",
                     id="a restart keeps the statuses"),
        pytest.param("Random", [*healthy("a", "b"), {"choose": {"times": 1000, "count_between": [400, 600]}}],
                     "passed", id="of every healthy one"),
    ],
)  # fmt: skip
def test_steps_of_the_readme(tmp_path: Path, algorithm: str, steps: list[Json], verdict: str) -> None:
    case = {"id": "x", "basis": "required", "algorithm": algorithm, "steps": steps}
    ((found, said),) = verdicts(tmp_path, "assignment.json", {"cases": [case]})
    assert found == verdict, said


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    ("group", "case", "verdict"),
    [
        ("unit_objects", {"current": {"a": 4}, "joined": ["b"], "even": {"min_moves": 2}, "anchor": "a"}, "passed"),
        ("unit_objects", {"current": {"a": 4}, "joined": ["b"], "even": {"min_moves": 2, "mood": 1}}, "failed"),
        ("properties", {"bound": "0 moves once the loads are constant", "setup": "nothing changes"}, "passed"),
    ],
)  # fmt: skip
def test_rebalancing_of_the_readme(tmp_path: Path, group: str, case: Json, verdict: str) -> None:
    document = {group: [{"id": "x", "basis": "computed", **case}]}
    assert [found for found, _ in verdicts(tmp_path, "rebalance.json", document)] == [verdict]


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    ("note", "state", "new_work"),
    [
        ("its clock is behind, but the Lease was seen to change 2 seconds ago", "uncertain", True),
        ("its clock is behind; no change was seen for 60 s", "uncertain", False),
        ("taken as it is written", "uncertain", False),
    ],
)
def test_when_a_lease_was_seen_to_change(tmp_path: Path, note: str, state: str, new_work: bool) -> None:
    lease = {"renew_age_s": 40, "name": "s", "holder": "s", "duration_s": 10, "acquired": True}
    case = {"id": "x", "basis": "required", "lease": lease, "state": state, "new_work_allowed_required": new_work}
    document = {"shard_lease_states": [{**case, "note": note}]}
    assert [found for found, _ in verdicts(tmp_path, "hashing.json", document)] == ["passed"]
