"""What ksched's fencing cases and histories may say and none of our files does; and that they can fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.outcome import Outcome
from tests.conformance.runner import VECTORS, run_file

HELD = {"executor": "a", "pod_uid": "pa", "epoch": 3, "rv": 100, "completed": False}
FREE = {**HELD, "executor": None}
DONE = {**HELD, "completed": True}
TO_B = {"op": "assign", "by": "s1", "to": "b", "if_epoch": 3}
OF_A = {"by": "a", "pod_uid": "pa", "epoch": 3}
UNCHANGED = {"executor": "a", "epoch": 3}


def outcome(folder: Path, file: str, document: dict[str, Any]) -> Outcome:
    path = folder / file
    path.write_text(json.dumps(document))
    (result,) = run_file(path, "ksched").results
    return result.outcome


def fencing(folder: Path, initial: dict[str, Any], final: dict[str, Any], *requests: dict[str, Any]) -> Outcome:
    case = {"id": "x", "basis": "required", "initial": initial, "requests": requests, "final": final}
    return outcome(folder, "fencing.json", {"cases": [case]})


@pytest.mark.parametrize(
    ("initial", "final", "request_"),
    [
        (HELD, UNCHANGED, {"op": "status_write", **OF_A, "epoch": 2, "expect": "reject"}),
        (HELD, UNCHANGED, {"op": "status_write", **OF_A, "pod_uid": "pa2", "expect": "reject"}),
        (HELD, UNCHANGED, {"op": "release", **OF_A, "epoch": 2, "expect": "reject"}),
        (HELD, UNCHANGED, {"op": "spec_edit", "by": "user", "fields": ["spec.assignedTo"], "expect": "reject"}),
        (HELD, UNCHANGED, {"op": "spec_edit", "by": "user", "fields": ["spec.x", "epoch"], "expect": "reject"}),
        (HELD, UNCHANGED, {"op": "spec_edit", "by": "user", "fields": ["metadata.labels.team"], "expect": "accept"}),
        (HELD, UNCHANGED, {"op": "spec_edit", "by": "b", "fields": ["executor"], "expect": "reject"}),
        (HELD, {"executor": "b", "epoch": 4}, {**TO_B, "by": "s2", "expect": "accept"}),
        (FREE, {"executor": "b", "epoch": 4}, {**TO_B, "expect": "accept"}),
        (FREE, {"executor": None, "epoch": 3}, {**TO_B, "if_epoch": 2, "expect": "reject"}),
        (FREE, {"executor": None}, {**TO_B, "set_epoch": 5, "expect": "reject"}),
        (DONE, UNCHANGED, {"op": "release", **OF_A, "expect": "reject"}),
        (DONE, UNCHANGED, {"op": "assign", "by": "supervisor", "to": "b", "if_epoch": 3, "expect": "reject"}),
    ],
)  # fmt: skip
def test_further_requests(
    tmp_path: Path, initial: dict[str, Any], final: dict[str, Any], request_: dict[str, Any]
) -> None:
    assert fencing(tmp_path, initial, final, request_).verdict == "passed"
    other = {**request_, "expect": "accept" if request_["expect"] == "reject" else "reject"}
    assert fencing(tmp_path, initial, final, other).verdict == "failed"


@pytest.mark.parametrize(
    ("request_", "verdict"),
    [
        ({"op": "explode", "by": "a", "expect": "accept"}, "failed"),
        ({"op": "release", **OF_A, "expect": "perhaps"}, "failed"),
        ({"op": "spec_edit", "by": "user", "fields": ["everything"], "expect": "accept"}, "skipped"),
    ],
)
def test_what_nobody_knows(tmp_path: Path, request_: dict[str, Any], verdict: str) -> None:
    assert fencing(tmp_path, HELD, UNCHANGED, request_).verdict == verdict


@pytest.mark.parametrize("file", ["fencing.json", "histories.json"])
def test_every_wrong_expectation_fails(tmp_path: Path, file: str) -> None:
    document = json.loads((VECTORS / "ksched" / file).read_text())
    for case in document.get("cases") or document["histories"]:
        if "violates" in case:
            wrong = {"histories": [{**case, "violates": [*case["violates"], "S9"]}]}
        else:
            wrong = {"cases": [{**case, "final": dict.fromkeys(case["final"], "another")}]}
        assert outcome(tmp_path, file, wrong).verdict == "failed", case["id"]


@pytest.mark.parametrize("change", [{"violates": ["S12"]}, {"limits": {"L9": 1}}, {"events": [{"t": 0, "ev": "x"}]}])
def test_histories_that_nobody_knows(tmp_path: Path, change: dict[str, Any]) -> None:
    case = {"id": "x", "events": [], "violates": [], **change}
    assert outcome(tmp_path, "histories.json", {"histories": [case]}).verdict == "failed"


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    ("initial", "final", "request_"),
    [
        (HELD, {**HELD, "rv": 101, "note": "a remark"}, {"op": "status_write", **OF_A, "expect": "accept"}),
        (HELD, HELD, {"op": "status_write", **OF_A, "epoch": 2, "expect": "reject", "why": "a remark"}),
        ({"executor": "a", "epoch": 3}, {"executor": None, "epoch": 3},
         {"op": "release", "by": "a", "epoch": 3, "expect": "accept"}),
        (HELD, UNCHANGED, {"op": "spec_edit", "by": "user", "fields": ["spec.executor"], "expect": "reject"}),
        (HELD, UNCHANGED, {"op": "spec_edit", "by": "user", "fields": ["status.pod_uid"], "expect": "reject"}),
        (HELD, UNCHANGED, {"op": "spec_edit", "by": "user", "fields": ["spec.executors"], "expect": "accept"}),
        (HELD, UNCHANGED, {**TO_B, "by": "S2", "if_epoch": 2, "expect": "reject",
                           "then": "re-read shows another assignment: give up"}),
    ],
)  # fmt: skip
def test_requests_of_the_readme(
    tmp_path: Path, initial: dict[str, Any], final: dict[str, Any], request_: dict[str, Any]
) -> None:
    assert fencing(tmp_path, initial, final, request_).verdict == "passed", fencing(tmp_path, initial, final, request_)


@pytest.mark.finding("R1")
def test_a_history_whose_events_name_an_executor_alone(tmp_path: Path) -> None:
    events = [
        {"t": 0, "ev": "eligible", "ex": "a", "inc": 2, "note": "a remark"},
        {"t": 0, "ev": "create", "obj": "o1", "uid": "U1"},
        {"t": 1, "ev": "assign", "obj": "o1", "to": "a", "epoch": 1},
        {"t": 2, "ev": "start", "obj": "o1", "ex": "a", "epoch": 1},
    ]
    case = {"id": "x", "events": events, "violates": [], "limits": None}
    assert outcome(tmp_path, "histories.json", {"histories": [case]}).verdict == "passed"
    assert outcome(tmp_path, "histories.json", {"histories": [{**case, "violates": ["S1"]}]}).verdict == "failed"
