"""The runner of kube-scheduler's vectors can fail: an expectation that is changed is noticed, in every file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kube_scheduler import RUNNERS
from tests.conformance.outcome import attempted
from tests.conformance.runner import VECTORS, run_file

FOLDER = VECTORS / "kube-scheduler"


def cases(file: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / file).read_text())["cases"]
    return found


def other(value: Any, key: str = "") -> Any:
    """The same shape with other values in it."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str() if key in ("code", "") or key.startswith(("node", "machine")):
            return "Unschedulable" if value == "Success" else "Success"
        case str():
            return value + "-changed"
        case list():
            return [other(each, key) for each in value] if value else ["more"]
        case dict():
            return {name: other(each, name) for name, each in value.items()}
        case _:
            return value


def changed(case: dict[str, Any]) -> dict[str, Any]:
    modern = case.get("modern")
    found = {**case, "expected": other(case["expected"])}
    if modern is not None:
        found["modern"] = {
            **other(modern),
            "same": modern.get("same", True),
            "feasible_same": modern.get("feasible_same", True),
        }
    return found


@pytest.mark.parametrize("file", sorted(RUNNERS))
def test_a_wrong_expectation_fails(file: str) -> None:
    outcomes = [attempted(RUNNERS[file], changed(case)) for case in cases(file)]
    assert any(outcome.verdict == "failed" and "expected" in outcome.detail for outcome in outcomes), outcomes


def test_every_file_has_a_runner_and_every_runner_a_file() -> None:
    assert {path.name for path in FOLDER.glob("*.json")} == set(RUNNERS)


def test_what_is_not_known_fails(tmp_path: Path) -> None:
    case = {**cases("pod_topology_spread_score.json")[0], "feature_gates": {"SomethingElse": False}}
    path = tmp_path / "pod_topology_spread_score.json"
    path.write_text(json.dumps({"plugin": "PodTopologySpread", "cases": [case]}))
    (result,) = run_file(path, "kube-scheduler").results
    assert (result.outcome.verdict, "SomethingElse" in result.outcome.detail) == ("failed", True)
    case = {**cases("preemption_dry_run.json")[0], "filter_plugins": ["NoSuchFilter"]}
    path = tmp_path / "preemption_dry_run.json"
    path.write_text(json.dumps({"plugin": "DefaultPreemption", "cases": [case]}))
    (result,) = run_file(path, "kube-scheduler").results
    assert (result.outcome.verdict, "NoSuchFilter" in result.outcome.detail) == ("failed", True)
