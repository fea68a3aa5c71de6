"""The runner of kube-scheduler's vectors can fail: an expectation that is changed is noticed, in every file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kube_scheduler import RUNNERS
from tests.conformance.outcome import attempted
from tests.conformance.remarks import without_remarks
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


@pytest.mark.parametrize(
    ("weight", "expected", "verdict"),
    [
        pytest.param(0, {"error": "any text"}, "passed", id="refused, as it should be"),
        pytest.param(0, {"scores": {}}, "failed", id="refused, and should not be"),
        pytest.param(1, {"error": "any text"}, "failed", id="taken, and should not be"),
        pytest.param(1, {"scores": {}}, "passed", id="taken, as it should be"),
    ],
)
def test_arguments_are_refused_where_a_case_says_so(weight: int, expected: Mapping[str, Any], verdict: str) -> None:
    case = {"pod": {}, "args": {"resources": [{"name": "cpu", "weight": weight}]}, "expected": expected}
    assert attempted(RUNNERS["least_allocated_score.json"], case).verdict == verdict


def test_owners_and_gates_of_other_cases_are_known() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    constraint = {"maxSkew": 1, "minDomains": 2, "topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule"}
    selecting = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}
    placed = {"metadata": {"name": "one", "labels": {"app": ""}}, "spec": {"nodeName": "a"}}
    nodes = [{"metadata": {"name": "a", "labels": {"host": "a"}}}]
    by_gate = {
        "pod": {
            "metadata": {"labels": {"app": ""}},
            "spec": {"topologySpreadConstraints": [constraint | selecting]},
        },
        "nodes": nodes,
        "pods": [placed],
        "feature_gates": {"MinDomainsInPodTopologySpread": False},
        "expected": {"codes": {"a": "Success"}},
    }
    assert attempted(RUNNERS["pod_topology_spread_filter_modern.json"], by_gate).verdict == "passed"
    by_owner = {
        "pod": {"metadata": {"labels": {"app": ""}, "ownerReferences": [owner]}},
        "nodes": nodes,
        "pods": [placed],
        "args": {"defaultConstraints": [constraint]},
        "objects": [
            {"kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": ""}}}}
        ],
        "expected": {"pair_to_match_num": [{"key": "host", "value": "a", "match_num": 1}], "n_constraints": 1},
    }
    assert attempted(RUNNERS["pod_topology_spread_prefilter_state.json"], by_owner).verdict == "passed"


def affine(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "foo", "operator": operator, "values": list(values)}]}


def required(*terms: Any) -> dict[str, Any]:
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"spec": {"affinity": {"nodeAffinity": wanted}}}


def preferred(term: Any) -> dict[str, Any]:
    wanted = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    return {"spec": {"affinity": {"nodeAffinity": wanted}}}


NODE = {"metadata": {"name": "n", "labels": {"foo": "bar", "zone": "z"}}}
ADDED = required(affine("In", "bar"))["spec"]["affinity"]["nodeAffinity"]
REFUSED = {"status": {"n": {"code": "UnschedulableAndUnresolvable", "why": "a remark"}}, "note": "a remark"}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    ("file", "case"),
    [
        pytest.param("node_affinity_filter.json",
                     {"pod": required(affine("NotIn", "invalid value: ___@#$%^")), "expected": REFUSED},
                     id="a value that no label can have"),
        pytest.param("node_affinity_filter.json",
                     {"pod": required(affine("NotIn", "{{.bad-value.}}"), affine("Exists")),
                      "expected": {"codes": {"n": "Success"}}}, id="and a term that holds"),
        pytest.param("node_affinity_filter.json",
                     {"pod": {}, "args": {"addedAffinity": ADDED},
                      "expected": {"codes": {"n": "Success"}}}, id="added affinity"),
        pytest.param("node_affinity_score.json",
                     {"pod": preferred(affine("NotIn", "{{.bad.}}")), "expected": {"prescore": {"code": "Error"}}},
                     id="a preference that cannot be read"),
        pytest.param("node_affinity_score.json", {"pod": {}, "expected": {"prescore": "Skip"}}, id="skipped"),
        pytest.param("node_affinity_score.json",
                     {"pod": preferred(affine("In", "bar")), "expected": {"prescore": {"code": "Success"}}},
                     id="not skipped"),
        pytest.param("pod_topology_spread_filter.json",
                     {"pod": {"metadata": {"labels": {"a": "b"}}},
                      "pods": [{"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "n"}}],
                      "nodes": [NODE, {"metadata": {"name": "o", "labels": {"zone": "y"}}}],
                      "args": {"defaultConstraints": [SPREAD]},
                      "objects": [{"kind": "Service", "spec": {"selector": {"a": "b"}}}],
                      "expected": {"codes": {"n": "Unschedulable", "o": "Success"}}}, id="default constraints"),
        pytest.param("pod_topology_spread_prefilter_state.json",
                     {"pod": {}, "expected": {"critical_paths": None, "pair_to_match_num": None, "n_constraints": 0}},
                     id="null is nothing"),
        pytest.param("preemption_nodes_that_might_help.json",
                     {"all_nodes": ["a", "b"], "node_status": {"b": "Unschedulable", "a": {"code": "Unschedulable"}},
                      "expected": {"nodes": ["b", "a"]}}, id="a set of nodes"),
        pytest.param("queue_sort.json", {"p1": {"priority": 1}, "p2": {"timestamp": "2026-01-01T00:00:00Z"},
                                         "expected": {"p1_less_p2": True}}, id="no time is the zero time"),
        pytest.param("preemption_pod_eligible.json",
                     {"pod": {"spec": {"preemptionPolicy": "Never"}}, "nominated_node_status": None,
                      "expected": {"eligible": False}}, id="no nominated node"),
        pytest.param("preemption_dry_run.json",
                     {"incoming_pods": [{"metadata": {"name": "p"}, "spec": {"priority": 9}}],
                      "pods": [{"metadata": {"name": "v"}, "spec": {"nodeName": "n", "priority": 1}}],
                      "filter_plugins": ["FakeFilter"], "fake_filter_code": "Success",
                      "expected": {"candidates_per_incoming_pod": [
                          [{"node": "n", "victims": [], "num_pdb_violations": 0}]]}}, id="a fake filter that passes"),
    ],
)  # fmt: skip
def test_what_the_readme_allows_and_no_case_of_ours_shows(file: str, case: dict[str, Any]) -> None:
    outcome = attempted(RUNNERS[file], without_remarks({"nodes": [NODE], **case}))
    assert outcome.verdict == "passed", outcome


@pytest.mark.finding("R1")
def test_an_argument_that_is_not_read_fails_by_name() -> None:
    case = {"pod": {}, "nodes": [NODE], "args": {"mood": 1}, "expected": {"scores": {"n": 0}}}
    outcome = attempted(RUNNERS["least_allocated_score.json"], case)
    assert (outcome.verdict, "mood" in outcome.detail) == ("failed", True)
