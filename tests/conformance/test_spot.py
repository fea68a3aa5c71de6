"""The runner of spot's vectors can fail, and knows what the shape allows beyond the cases that are here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.outcome import attempted
from tests.conformance.remarks import without_remarks
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
        ("cost.json", {"input": {}, "expect": {"happiness": 1}}, "failed"),
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


CLUSTER = {"spot_nodes": 3, "on_demand_nodes": 2, "pods_per_node": 10}
TEN = [{"kind": "Deployment", "replicas": 10, "policy": {"on_demand": "2"}, "name": "web"}]
THREE = [{"kind": "StatefulSet", "replicas": 3, "policy": {"mode": "default"}, "name": "db"}]


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    ("workloads", "steps", "must"),
    [
        pytest.param(TEN, ["settle", "taint all spot nodes with karpenter.sh/disrupted at t0", "settle"],
                     ["min ready >= 2 at all times", "final on-demand count == 10"], id="a taint at t0"),
        pytest.param(TEN, ["settle", "taint every spot node with x/spot-itn:NoSchedule at t0, delete them 120 s later"],
                     ["min ready over all t >= 9", "after settling ready == 10, all on on-demand nodes"],
                     id="a taint, and then they go"),
        pytest.param(TEN, ["settle", "change the image", "settle"],
                     ["the rollout completes", "ready >= 10 at all times", "final on-demand count == 2",
                      "no pod stays Pending"], id="a Deployment's image"),
        pytest.param(THREE, ["settle", "change the image", "wait until the rollout is done"],
                     ["the rollout completes within 300 s", "min ready >= 2 at all times", "on-demand >= 2 at the end"],
                     id="a StatefulSet's image"),
        pytest.param(TEN, ["settle", "set on-demand to 5", "settle", "kill one spot node"],
                     ["on-demand count >= 5 at the end", "never fewer than 5 ready"], id="other words"),
        pytest.param(TEN, ["settle", "disable the policy", "settle"], ["no restarts", "all pods are ready"], id="off"),
        pytest.param(TEN, ["create", "settle", "create Deployment api, replicas 4, on-demand 4"],
                     ["on-demand count never exceeds 2 (one webhook)"], id="one more"),
        pytest.param([{**TEN[0], "max_surge": "25%"}], ["settle", "scale up from 10 to 20", "settle"],
                     ["final ready == 20"], id="a percentage"),
    ],
)  # fmt: skip
def test_scenarios_of_the_readme(workloads: Json, steps: list[str], must: list[str]) -> None:
    case = {"id": "x", "setup": {"cluster": CLUSTER, "workloads": workloads}, "steps": steps, "must": must}
    outcome = attempted(RUNNERS["invariants.json"], case)
    assert outcome.verdict == "passed", outcome
    wrong = {**case, "must": [*must, "min ready over all t >= 1000"]}
    assert attempted(RUNNERS["invariants.json"], wrong).verdict == "failed"


@pytest.mark.finding("R1")
@pytest.mark.parametrize(("floor", "verdict"), [(2, "passed"), (4, "failed")])
def test_all_scenarios_on_one_cluster(floor: int, verdict: str) -> None:
    one = {"id": "I1", "setup": {"cluster": CLUSTER, "workloads": TEN}, "must": [f"min ready over all t >= {floor}"]}
    other_ = {"id": "I2", "setup": {"cluster": CLUSTER, "workloads": THREE}, "must": ["min ready >= 2 at all times"]}
    whole = {"id": "I3", "setup": {"cluster": {**CLUSTER, "spot_nodes": 4}},
             "steps": ["all of the above on one cluster"], "must": ["every workload keeps its floor"]}  # fmt: skip
    (*_, last) = CASES["invariants.json"]([one, other_, whole])
    assert attempted(RUNNERS["invariants.json"], last).verdict == verdict


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    ("file", "case"),
    [
        pytest.param("cost.json", {"input": {"outage_cost_per_month": 30, "premium_per_month": 31},
                                   "expect": {"worth_it": False, "note": "a remark"}}, id="worth it, of both sums"),
        pytest.param("cost.json", {"input": {"probability": 0.05, "spot_pods": 10},
                                   "expect": {"p_at_least_one": 0.401263}}, id="at least one"),
        pytest.param("admission.json", {"workload": WEB, "policy": {"on_demand": "1"}, "expect": {"class": "unmanaged"},
                                        "request": {"annotations": {"@opted out": "true"}}}, id="opted out"),
        pytest.param("admission.json", {"workload": {**WEB, "revision": "r2"}, "policy": {"on_demand": "1"},
                                        "reservations": [{"token": "t", "class": "on-demand", "rev": "r1"}],
                                        "request": {"rev": "r2"}, "expect": {"class": "on-demand"}},
                     id="a reservation of another revision"),
        pytest.param("evictions.json", {
            "workload": {**WEB, "replicas": 2}, "policy_before": {"on_demand": "0"}, "policy_after": {"on_demand": "1"},
            "pods": [{**each, "on": "spot"} for each in OVER],
            "expect": {"class": "spot", "total": 1, "then_admit": ["on-demand"], "never": None, "why": "a remark",
                       "may_defer": True, "now": 1}}, id="who comes then"),
        pytest.param("ledger.json", {
            "op": {"sequence": ["admit t1 (first)", "retry t1", "pod t1 is seen", "5 s pass", "reconcile again"]},
            "before": {"target": 5}, "after": {"observed_active": 1, "missing": 4, "reservations": []}},
            id="other words, and what is not said"),
        pytest.param("evictions.json", {"workload": {**WEB, "replicas": 2}, "policy": {"on_demand": "0"}, "pods": OVER,
                                        "expect": {"class": "spot", "total": 2, "now": 1}}, id="the policy stays"),
        pytest.param("ledger.json", {
            "op": {"sequence": ["admit", "admit again", "rejected by quota", "delete t9 (dry-run)"]},
            "before": {"target": 5}, "after": {"granted_on_demand": 2, "missing": 3}}, id="nameless pods"),
        pytest.param("merge.json", {"class": "spot", "capacity_label": "node.kubernetes.io/capacity",
                                    "nodes": {"a": {"labels": {"node.kubernetes.io/capacity": "spot"}}},
                                    "expect": {"feasible_nodes": ["a"], "unchanged": None, "conflict": False}},
                     id="no constraints at all"),
        pytest.param("signals.json", {"node": {"labels": {"node.kubernetes.io/capacity": "spot"}}, "now": None,
                                      "expect": {"capacity": "spot", "state": "ok", "deadline_s_max": None}},
                     id="no conditions"),
    ],
)  # fmt: skip
def test_optional_parts(file: str, case: dict[str, Json]) -> None:
    outcome = attempted(RUNNERS[file], without_remarks({"id": "x", **case}))
    assert outcome.verdict == "passed", outcome


@pytest.mark.finding("R1")
def test_victims_with_what_is_usual_left_out() -> None:
    pods = [{"name": "web-a", "class": "spot"}, {"name": "web-b", "class": "on-demand"}]
    case = {"op": "victims", "kind": "Deployment", "replicas": [2, 1], "target_after": 1, "pods": pods}
    for group, verdict in (({"count": 1, "among": ["web-a"]}, "passed"), ({"count": 1, "among": ["web-b"]}, "failed")):
        assert attempted(RUNNERS["scaledown.json"], {**case, "expect": [group]}).verdict == verdict
