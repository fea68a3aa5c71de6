"""The runner of spot's vectors can fail, and knows what the shape allows beyond the cases that are here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.outcome import attempted
from tests.conformance.runner import VECTORS, run_file
from tests.conformance.spot import CASES, RUNNERS
from tests.conformance.test_kube_scheduler import other

FOLDER = VECTORS / "spot"
Json = Any


def cases(file: str) -> list[dict[str, Json]]:
    document = json.loads((FOLDER / file).read_text())
    layout = CASES.get(file)
    return [dict(case) for case in (layout(document) if layout is not None else document)]


def wrong(value: Json) -> Json:
    """Figures too."""
    if isinstance(value, dict) and any(isinstance(each, float) for each in value.values()):
        return {key: each + 1 if isinstance(each, float) else other(each) for key, each in value.items()}
    return other(value)


def changed(case: dict[str, Json]) -> dict[str, Json]:
    """The same with expectations that are not right."""
    for key in ("expect", "expect_by", "after", "expect_cost", "expect_class"):
        if key in case:
            case = {**case, key: wrong(case[key])}
    if "must" in case:
        case = {**case, "must": ["min ready over all t >= 1000"]}
    return case


@pytest.mark.parametrize("file", sorted(RUNNERS))
def test_a_wrong_expectation_fails(file: str) -> None:
    outcomes = [attempted(RUNNERS[file], changed(case)) for case in cases(file)[:12]]
    assert any(outcome.verdict == "failed" for outcome in outcomes), outcomes


def test_every_file_has_a_runner_and_every_runner_a_file() -> None:
    assert {path.name for path in FOLDER.glob("*.json")} == set(RUNNERS)


WEB = {"kind": "Deployment", "name": "web", "replicas": 5}
OVER = [{"name": f"s{n}", "intent": "spot", "on": "on-demand", "state": "ready"} for n in range(2)]
LEDGER = {"target": 5, "observed_active": 5, "missing": 0, "reservations": [], "releases": []}


@pytest.mark.parametrize(
    ("file", "case"),
    [
        pytest.param("admission.json", {
            "workload": {**WEB, "revision": "r2", "max_surge": 1}, "policy": {"on_demand": "2"}, "reservations": [],
            "pods": [{"name": "o", "intent": "on-demand", "on": "on-demand", "state": "ready", "rev": "r1"}] * 2,
            "request": {"rev": "r2"}, "expect_by": {"total": "spot", "per_revision": "on-demand"}}, id="a rollout"),
        pytest.param("admission.json", {
            "workload": WEB, "policy": {"on_demand": "2"}, "pods": [], "request": {"dry_run": False},
            "reservations": [{"token": "x", "class": "on-demand", "age_s": 31}], "params": {"reservation_ttl_s": 30},
            "expect": {"class": "on-demand"}, "expect_ledger_delta": 1}, id="a reservation that is over"),
        pytest.param("admission.json", {
            "workload": WEB, "policy": {"enabled": False}, "pods": [], "reservations": [], "request": {},
            "expect": {"class": "unmanaged"}}, id="switched off"),
        pytest.param("admission.json", {
            "workload": {**WEB, "kind": "ReplicaSet"}, "policy": {"on_demand": "2"}, "pods": [], "reservations": [],
            "request": {}, "expect_by": {"supported": "on-demand", "unsupported": "unmanaged"}}, id="a ReplicaSet"),
        pytest.param("admission.json", {
            "workload": WEB, "policy": {"on_demand": "1"}, "reservations": [], "request": {},
            "pods": [{"name": "o", "intent": "on-demand", "on": "on-demand", "state": "ready", "owner_uid": "other"},
                     {"name": "d", "intent": "on-demand", "on": "on-demand", "state": "ready", "node_doomed": True}],
            "expect": {"class": "on-demand"}}, id="another's pods, and a doomed node"),
        pytest.param("evictions.json", {
            "workload": {**WEB, "replicas": 2}, "policy_before": {"on_demand": "0"}, "policy_after": {"on_demand": "0"},
            "pods": OVER, "spot_capacity": "available",
            "expect": {"class": "spot", "total": 2, "now": 1, "candidates": ["s0", "s1"]}}, id="spot is back"),
        pytest.param("evictions.json", {
            "workload": {**WEB, "replicas": 2}, "policy_before": {"on_demand": "0"}, "policy_after": {"on_demand": "0"},
            "pods": OVER, "spot_capacity": "none", "expect": {"class": None, "total": 0, "now": 0}}, id="spot is not"),
        pytest.param("evictions.json", {
            "workload": {**WEB, "replicas": 2}, "policy_before": {"on_demand": "0"}, "policy_after": {"on_demand": "1"},
            "pods": [{**each, "on": "spot"} for each in OVER], "pdb": {"disruptions_allowed": 0},
            "expect": {"class": "spot", "total": 1, "now": 0, "wait": "a budget"}}, id="a budget refuses"),
        pytest.param("evictions.json", {
            "workload": {**WEB, "replicas": 2}, "policy_before": {"on_demand": "0"}, "policy_after": {"on_demand": "1"},
            "pods": [{**OVER[0], "on": "spot"}, {**OVER[1], "on": "spot", "node_doomed": True}],
            "expect": {"class": "spot", "total": 1, "now": 1, "candidates": ["s1"]}}, id="a doomed node first"),
        pytest.param("evictions.json", {
            "workload": WEB, "policy_before": {"on_demand": "3"}, "policy_after": {"enabled": False}, "pods": OVER,
            "expect": {"class": None, "total": 0, "now": 0, "never": ["s0", "s1"]}}, id="switched off"),
        pytest.param("ledger.json", {
            "op": {"evict": "test-pod-3"}, "before": LEDGER,
            "after": {**LEDGER, "missing": 1, "releases": [{"id": "test-pod-3", "age_s": 0}]}}, id="an eviction"),
        pytest.param("ledger.json", {"op": {"delete": "foreign"}, "before": LEDGER, "after": LEDGER}, id="another's"),
        pytest.param("ledger.json", {
            "op": {"reconcile": True, "reservation_ttl_s": 30, "release_ttl_s": 15},
            "before": {**LEDGER, "missing": 1, "releases": [{"id": "test-pod-4", "age_s": 16}]},
            "after": LEDGER}, id="a release that never happened"),
        pytest.param("ledger.json", {
            "op": {"delete": "test-pod-1"},
            "before": {**LEDGER, "observed_active": 4, "reservations": [{"id": "test-pod-1", "age_s": 2}]},
            "after": {**LEDGER, "observed_active": 4, "reservations": [{"id": "test-pod-1", "age_s": 2}]}},
            id="a pod that is still a reservation"),
        pytest.param("ledger.json", {
            "op": {"sequence": ["admit t1", "observe t1", "reconcile", "wait 40 s"]},
            "before": {**LEDGER, "observed_active": 0, "missing": 5},
            "after": {**LEDGER, "observed_active": 1, "missing": 4}}, id="seen in time"),
        pytest.param("cost.json", {
            "input": {"spot_pods": 8, "monthly_frequency": 0.1}, "tolerance": 0.01,
            "expect": {"probability": 0.5695, "expected_interruptions_per_month": 0.8429}}, id="many pods"),
        pytest.param("cost.json", {
            "input": {"waves_per_month": 2, "outage_s_per_wave": 90, "value_per_outage_minute": 10,
                      "premium_per_month": 20},
            "expect": {"outage_cost_per_month": 30, "worth_it": True}}, id="worth it"),
        pytest.param("cost.json", {
            "input": {"on_demand_price_h": 0.1, "discount": 0.7, "pod_share_of_node": 0.25, "extra_pods": 2},
            "expect": {"premium_per_month": 25.55}}, id="a premium"),
    ],
)  # fmt: skip
def test_what_the_shape_allows_and_no_case_of_ours_shows(tmp_path: Path, file: str, case: dict[str, Json]) -> None:
    path = tmp_path / file
    path.write_text(json.dumps([{"id": "x", "level": "must", **case}]))
    (result,) = run_file(path, "spot").results
    assert (result.outcome.verdict, result.outcome.optional) == ("passed", False), result.outcome


@pytest.mark.parametrize(
    ("file", "case", "verdict"),
    [
        ("ledger.json", {"op": {"sequence": ["sing"]}, "before": LEDGER, "after": LEDGER}, "skipped"),
        ("ledger.json", {"op": {"dance": 1}, "before": LEDGER, "after": LEDGER}, "failed"),
        ("cost.json", {"input": {}, "expect": {"happiness": 1}}, "skipped"),
        ("targets.json", {"kind": "Deployment", "replicas": 1, "policy": {}, "level": "perhaps"}, "failed"),
        ("admission.json", {"workload": {**WEB, "kind": "Gizmo"}, "policy": {}, "request": {}}, "failed"),
        ("invariants.json", {"setup": {"cluster": {"spot_nodes": 1, "on_demand_nodes": 1, "pods_per_node": 1},
                                       "workloads": []}, "steps": ["pray"], "must": []}, "skipped"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_not_passed(tmp_path: Path, file: str, case: dict[str, Json], verdict: str) -> None:
    path = tmp_path / file
    path.write_text(json.dumps([{"id": "x", **case}]))
    (result,) = run_file(path, "spot").results
    assert result.outcome.verdict == verdict, result.outcome
