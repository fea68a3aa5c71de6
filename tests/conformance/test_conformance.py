"""The vectors of this repository, and the runner's own behaviour."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.outcome import PASSED, Case, Outcome, UnknownPhraseError, attempted, by_action, compared, skipped
from tests.conformance.runner import VECTORS, main


def run(*folders: Path) -> tuple[int, list[str]]:
    lines: list[str] = []
    return main([str(folder) for folder in folders], lines.append), lines


def write(folder: Path, name: str, content: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def total_case(expected: int) -> dict[str, Any]:
    placements = [{"pod": "p", "vreplicas": 3}]
    return {
        "id": "t-1",
        "name": "a sum",
        "action": "total_vreplicas",
        "input": {"placements": placements},
        "expected": {"value": expected},
    }


@pytest.mark.rule("vpod:V37", "vpod:D13", "vpod:D14", "vpod:D16")
def test_every_case_that_must_pass_passes_and_none_is_skipped() -> None:
    status, lines = run()
    assert status == 0, "\n".join(lines)
    assert " 0 failed, 0 skipped" in lines[-1], "\n".join(lines)


def test_the_copy_is_whole() -> None:
    assert len(list((VECTORS / "knative").glob("*.json"))) == 21


def test_a_line_a_file_with_each_failed_case(tmp_path: Path) -> None:
    folder = write(tmp_path / "knative", "placement_helpers.json", [total_case(3), total_case(4)])
    assert run(folder) == (
        1,
        [
            "knative/placement_helpers.json: 1 passed, 1 failed, 0 skipped",
            "  FAILED t-1 (a sum): value: expected 4, got 3",
            "total: 1 passed, 1 failed, 0 skipped",
        ],
    )
    assert run(tmp_path) == run(folder), "the parent of a folder runs it too"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param("novel.json", [], "unknown file novel.json", id="an unknown file"),
        pytest.param("state.json", "[", "cannot be read as JSON", id="no JSON"),
        pytest.param("state.json", "[" * 100_000, "cannot be read as JSON", id="too deep"),
        pytest.param("state.json", {}, "holds no list of cases", id="no list"),
        pytest.param(
            "state.json", [{"id": "\ud800\x1b[31m", "action": "x"}], r"FAILED \ud800\x1b[31m: unk", id="escapes"
        ),
        pytest.param("state.json", [{"id": "x", "action": "dance"}], "unknown operation: action 'dance'", id="action"),
        pytest.param("state.json", [{"id": "x"}], "KeyError: 'action'", id="a case without action"),
        pytest.param("golden_traces.json", [{"name": "x"}], "KeyError", id="a trace without content"),
        pytest.param("state.json", ["text", None], "case 1: a case is a mapping, this is None", id="no case"),
    ],
)
def test_what_is_not_known_fails_loudly(tmp_path: Path, name: str, content: Any, message: str) -> None:
    status, lines = run(write(tmp_path / "knative", name, content))
    assert status == 1
    assert any("FAILED" in line and message in line for line in lines)


def test_a_folder_that_is_not_there_or_empty_fails(tmp_path: Path) -> None:
    assert run(tmp_path / "nowhere")[0] == 1
    novel = tmp_path / "novel"
    novel.mkdir()
    assert run(tmp_path)[0] == 1
    known = write(tmp_path / "knative", "placement_helpers.json", [total_case(3)])
    status, lines = run(known, novel)
    assert status == 1, "beside a folder with vectors"
    assert "  FAILED novel holds no vectors" in lines


def test_an_empty_list_of_cases_is_fine(tmp_path: Path) -> None:
    assert run(write(tmp_path / "knative", "state.json", []))[0] == 0


def test_a_folder_of_another_name_is_known_by_its_files(tmp_path: Path) -> None:
    assert run(write(tmp_path / "hidden", "placement_helpers.json", [total_case(3)]))[0] == 0


def test_optional_cases_do_not_change_the_exit_status(tmp_path: Path) -> None:
    broken = {"id": "x", "name": "y", "action": "may_compact", "input": {}, "expected": {"moves": 1}}
    status, lines = run(write(tmp_path / "knative", "compactor_v0_43_1.json", [broken]))
    assert status == 0
    assert lines[0] == "knative/compactor_v0_43_1.json: 0 passed, 0 failed, 0 skipped; O: 0 passed, 1 failed, 0 skipped"


def test_a_sentence_that_nobody_knows_skips_the_case_and_is_printed(tmp_path: Path) -> None:
    case = {
        "id": "div-99",
        "name": "prose",
        "action": "scenario",
        "input": {"capacity": 10, "replicas": 1, "vpod": {"key": "a/b", "vreplicas": 1}, "steps": ["sing a song"]},
        "expected": {"left": 0},
    }
    status, lines = run(write(tmp_path / "knative", "divergences.json", [case]))
    assert status == 0
    assert lines[:2] == [
        "knative/divergences.json: 0 passed, 0 failed, 1 skipped",
        "  skipped div-99 (prose): unknown phrase: sing a song",
    ]


SCENARIO = {"capacity": 10, "replicas": 2, "vpod": {"key": "a/b", "vreplicas": 6}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"steps": ["schedule", "set vreplicas to 0 and schedule"], "min_replicas": 2}, {"placements": []}),
        pytest.param({"vpod": {"key": "a/b", "vreplicas": 6, "placements": [{"pod": "odd", "vreplicas": 6}]}},
                     {"panic": False, "placements": [{"pod": "statefulset-name-0", "vreplicas": 3},
                                                     {"pod": "statefulset-name-1", "vreplicas": 3}]}),
        pytest.param({"vpod": {"key": "a/b", "vreplicas": 1,
                               "placements": [{"pod": "statefulset-name-2000000000", "vreplicas": 1}]}},
                     {"memory_bounded_by_number_of_pods": True}),
        pytest.param({"vpod": {"key": "a/b", "vreplicas": 6,
                               "placements": [{"pod": "statefulset-name-0", "vreplicas": 6}]},
                      "steps": ["promote with a leader-aware autoscaler attached", "demote",
                                "promote with a leader-aware autoscaler attached", "schedule all"]},
                     {"reserved_after_promote": {"a/b": {"statefulset-name-0": 6}},
                      "placements": [{"pod": "statefulset-name-0", "vreplicas": 6}]}),
        pytest.param({"vpod": None, "vpods": "20 vpods of 5 vreplicas each",
                      "steps": ["schedule all", "autoscale", "repeat 3 times"]},
                     {"replicas": 10, "left": 0, "converges": True, "failed_resources": []}),
        pytest.param({"capacity": 0}, {"panic": False, "error": True, "placements": []}),
        pytest.param({"pods": [{"name": "statefulset-name-0", "node": "n", "phase": "Failed"},
                               {"name": "statefulset-name-1", "node": "n", "deletion_timestamp": "set"}]},
                     {"left": 6, "error": True, "failed_resources": 1}),
    ],
)  # fmt: skip
def test_the_vocabulary_of_scenarios(tmp_path: Path, given: dict[str, Any], expected: dict[str, Any]) -> None:
    scenario = {key: value for key, value in {**SCENARIO, **given}.items() if value is not None}
    case = {"id": "s", "name": "s", "action": "scenario", "input": scenario, "expected": expected}
    status, lines = run(write(tmp_path / "knative", "divergences.json", [case]))
    assert (status, lines[0]) == (0, "knative/divergences.json: 1 passed, 0 failed, 0 skipped"), lines
    wrong = {**case, "expected": {**expected, "replicas": 77}}
    assert run(write(tmp_path / "knative", "divergences.json", [wrong]))[0] == 1, "an expectation was not looked at"


ONE_POD = {
    "statefulset": "s",
    "replicas": 3,
    "capacity": 10,
    "pods": [{"name": f"s-{ordinal}", "node": "n", "ordinal": ordinal, "schedulable": True} for ordinal in range(3)],
}
HELD = [{"pod": "s-4", "vreplicas": 0}]
POLICY_CASE = {
    **ONE_POD,
    "nodes": [{"name": "n", "zone": None}],
    "vpod": {"key": "a/b", "vreplicas": 12},
    "reserved": {},
    "scheduler_policy_type": "MAXFILLUP",
}
FULL = [{"pod": "s-0", "vreplicas": 10}, {"pod": "s-1", "vreplicas": 2}]


@pytest.mark.parametrize(
    ("file", "case"),
    [
        pytest.param("state.json",
                     {"action": "build_state",
                      "input": {**ONE_POD, "vpods": [{"key": "a/b", "vreplicas": 1, "placements": HELD}]},
                      "expected": {"free_cap": [10] * 5, "last_ordinal_v0431": 4}},
                     id="a placement of nothing is a placement"),
        pytest.param("scheduler.json",
                     {"action": "schedule", "applies_to": ["v0.43.1"],
                      "input": {**ONE_POD, "min_replicas": 3, "vpod": {"key": "a/b", "vreplicas": 1},
                                "effective_reserved": {}},
                      "expected": {"placements": [{"pod": "s-0", "vreplicas": 1}], "left": 0}},
                     id="v0.43.1 spreads over no least number of pods"),
        pytest.param("scheduler.json",
                     {"action": "schedule", "applies_to": ["main"],
                      "input": {**ONE_POD, "vpod": {"key": "a/b", "vreplicas": 1,
                                                    "placements": [{"pod": "s-2", "vreplicas": 1}]},
                                "initial_reserved": None},
                      "expected": {"placements": [{"pod": "s-2", "vreplicas": 1}]}},
                     id="just promoted"),
        pytest.param("compactor.json",
                     {"action": "may_compact", "input": {**ONE_POD, "vpods": []},
                      "expected": {"evictions": {"a/b": []}}},
                     id="nothing is evicted of one"),
        pytest.param("scheduler_policy.json",
                     {"action": "schedule", "input": POLICY_CASE,
                      "expected": {"placements": FULL, "error": False, "left": 0,
                                   "reserved": {"a/b": {"s-0": 10, "s-1": 2}}}},
                     id="what the policy era leaves and reserves"),
        pytest.param("evictor.json",
                     {"action": "evict",
                      "input": {"consumer_group_exists": True, "condition_ConsumersScheduled": "True",
                                "status_placements": None, "evict": {"pod": "s-0", "vreplicas": 1}},
                      "expected": {"error": False, "placements_after": None, "patched": False}},
                     id="null is an empty list"),
        pytest.param("scheduler.json",
                     {"action": "schedule",
                      "input": {"replicas": 0, "capacity": 10, "vpod": {"key": "a/b", "vreplicas": 1}},
                      "expected": {"left": 1, "error": True}},
                     id="so is what is absent"),
    ],
)  # fmt: skip
def test_what_the_shape_allows_and_no_file_of_ours_shows(tmp_path: Path, file: str, case: dict[str, Any]) -> None:
    status, lines = run(write(tmp_path / "knative", file, [{"id": "x", **case}]))
    assert status == 0, lines
    wrong = {**case, "expected": {**case["expected"], "wonder": 1}}
    assert run(write(tmp_path / "knative", file, [wrong]))[0] == 1, "an expectation was not looked at"


def test_the_loop_of_the_autoscaler(tmp_path: Path) -> None:
    case = {
        "id": "loop",
        "name": "loop",
        "action": "run_loop",
        "input": {
            "replicas": 0,
            "capacity": 10,
            "refresh_period_seconds": 1,
            "vpods": [{"key": "a/b", "vreplicas": 25}],
        },
        "expected": {"replicas": 3, "within_seconds": 3, "stops_within_seconds_of_cancel": 1},
    }
    assert run(write(tmp_path / "knative", "autoscaler.json", [case]))[0] == 0


def test_outcomes() -> None:
    assert compared({"a": 1, "b": 2}, {"a": 1}) == PASSED
    assert compared({}, {"a": None}).verdict == "failed", "absent is not null"
    assert attempted(by_action({"x": lambda _case: PASSED}), {"action": "y"}).verdict == "failed"

    def prose(_case: Case) -> Outcome:
        raise UnknownPhraseError("a sentence")

    assert attempted(prose, {}) == skipped("unknown phrase: a sentence")
