"""The runner of neon's vectors can fail, and knows what the shape allows beyond the cases that are here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.neon import CASES, RUNNERS
from tests.conformance.neon_cases import listed
from tests.conformance.outcome import attempted
from tests.conformance.remarks import without_remarks
from tests.conformance.runner import VECTORS
from tests.conformance.test_kube_scheduler import other

FOLDER = VECTORS / "neon"
Json = Any


def cases(file: str) -> list[dict[str, Json]]:
    document = json.loads((FOLDER / file).read_text())
    return [dict(case) for case in CASES.get(file, listed("cases"))(document)]


def changed(case: dict[str, Json]) -> dict[str, Json]:
    """The same with expectations that are not right."""
    if "expected" in case:
        expected = case["expected"]
        case = {**case, "expected": expected + 1 if isinstance(expected, float) else other(expected, "expected")}
    if "steps" in case:
        case = {**case, "steps": [_changed_step(step) for step in case["steps"]]}
    return case


def _changed_step(step: Json) -> Json:
    if isinstance(step, list):
        return [*step[:3], "another"] if step[0] == "get" else step
    return {key: other(value, key) if key.startswith(("expect", "next")) else value for key, value in step.items()}


@pytest.mark.parametrize("file", sorted(set(RUNNERS) - {"e2e_scenarios.json"}))
def test_a_wrong_expectation_fails(file: str) -> None:
    outcomes = [attempted(RUNNERS[file], changed(case)) for case in cases(file)[:12]]
    assert any(outcome.verdict == "failed" for outcome in outcomes), outcomes


def test_every_file_has_a_runner_and_every_runner_a_file() -> None:
    assert {path.name for path in FOLDER.glob("*.json")} == set(RUNNERS)


def pod(uid: str, cpu: int, **more: Json) -> Json:
    amounts = {"reserved": cpu, "requested": cpu, "factor": 250, "overcommit_milli": 1000}
    nothing = {"reserved": 0, "requested": 0, "factor": 1, "overcommit_milli": 1000}
    return {
        "uid": uid,
        "created_at": 1,
        "migratable": True,
        "migrating": False,
        "cpu_milli": amounts,
        "mem_bytes": nothing,
        **more,
    }


def node(reserved: int, watermark: int = 8000, migrating: int = 0) -> Json:
    cpu = {"total": 10000, "reserved": reserved, "committed": reserved, "watermark": watermark, "migrating": migrating}
    memory = {"total": 10, "reserved": 0, "committed": 0, "watermark": 10, "migrating": 0}
    return {"name": "node", "cpu_milli": cpu, "mem_bytes": memory}


def reconciled(reserved: int, requested: int, **more: Json) -> Json:
    """Approved for long, on a node of 10,000; `more` is what it is expected to come to."""
    state = {
        "node_total": 10000,
        "node_reserved_including_pod": reserved + more.pop("others", 0),
        "pod": {"reserved": reserved, "requested": requested, "factor": 250},
        "startup_done": more.pop("started", True),
        "approved_annotation_present": True,
        "ms_since_last_vm_patch": more.pop("ago_ms", None),
        "patch_retry_wait_ms": 1000,
    }
    expected = {
        "patch_vm_approved_to": None,
        "local_reserved_after": reserved,
        "reported_as_failing": False,
        "retry_after_ms": None,
        "requeue_after_startup": False,
    }
    return {"state": state, "action": "reconcile_pod", "expected": expected | more}


INITIAL = {"cpu_milli": 10000, "mem_bytes": 10, "watermark_fraction": 0.8}
SCORING = {"minUsageScore": 0.5, "maxUsageScore": 0.0, "scorePeak": 0.8}


@pytest.mark.parametrize(
    ("file", "case"),
    [
        pytest.param(
            "node_operations.json",
            {
                "initial": INITIAL,
                "steps": [
                    {"op": "speculatively", "commit": False, "do": [{"op": "add_pod", "pod": pod("a", 1000)}]},
                    {"op": "expect_pods", "present": [], "absent": ["a"]},
                    {"op": "speculatively", "commit": True, "do": [{"op": "add_pod", "pod": pod("b", 1000)}]},
                    {"op": "expect_pods", "present": ["b"], "absent": ["a"]},
                    {"op": "expect_node", "expect": {"cpu_milli": node(1000)["cpu_milli"]}},
                ],
            },
            id="a what-if that is dropped, and one that is kept",
        ),
        pytest.param(
            "transactional_map.json",
            {
                "steps": [
                    ["set", "m1", "a", "1"],
                    ["begin", "m1", "m2"],
                    ["begin", "m2", "m3"],
                    ["delete", "m3", "a"],
                    ["commit", "m3"],
                    ["entries", "m2", {}],
                    ["entries", "m1", {"a": "1"}],
                ]
            },
            id="a transaction in a transaction that is never committed",
        ),
        pytest.param(
            "derived_schedule_and_migrate.json",
            {
                "list": "score",
                "state": {
                    "scoring": SCORING,
                    "node": node(9000),
                    "max_node_cpu_milli": 10000,
                    "max_node_mem_bytes": 10,
                },
                "action": {"score": pod("p", 2000)},
                "expected": {"score": 0, "cpu_fraction": None, "mem_fraction": None},
            },
            id="over its budget a node scores nothing",
        ),
        pytest.param(
            "derived_schedule_and_migrate.json",
            {
                "list": "migration_selection",
                "state": {
                    "node": node(9900),
                    "pods": [pod("big", 8500), pod("old", 700), pod("new", 700, created_at=2)],
                    "already_requested": ["old"],
                },
                "action": "balance_node",
                "expected": {"new_migrations_in_order": ["new"], "skipped_too_big": ["big"], "enough": False},
            },
            id="one is too big, one has been asked to go",
        ),
        pytest.param(
            "derived_permit_protocol.json",
            {"request": {"single_json_object_of_bytes": 1024}, "expected": {"status": 200, "waits": False}},
            id="all that is read of a body",
        ),
        pytest.param(
            "derived_permit_protocol.json",
            {"request": {"single_json_object_of_bytes": 1025}, "expected": {"status": 400}},
            id="one byte more",
        ),
        pytest.param(
            "derived_permit_protocol.json",
            {"request": {"method": "GET"}, "expected": {"status": 400}},
            id="no POST",
        ),
        pytest.param(
            "derived_permit_protocol.json",
            {"request": {"raw": "{"}, "expected": {"status": 400, "vm_patch": None}},
            id="no JSON",
        ),
        pytest.param(
            "derived_pod_reconcile.json",
            reconciled(1000, 500, patch_vm_approved_to=500, local_reserved_after=1000),
            id="a decrease counts once the pod shows it",
        ),
        pytest.param(
            "derived_pod_reconcile.json",
            reconciled(
                500,
                1000,
                others=9200,
                patch_vm_approved_to=750,
                local_reserved_after=750,
                reported_as_failing=True,
                retry_after_ms=5000,
            ),
            id="a part is granted",
        ),
        pytest.param(
            "derived_pod_reconcile.json",
            reconciled(500, 1000, ago_ms=300, retry_after_ms=700),
            id="it was written to just now",
        ),
        pytest.param(
            "derived_pod_reconcile.json",
            reconciled(500, 1000, started=False, requeue_after_startup=True),
            id="not everything has been taken in yet",
        ),
        pytest.param(
            "normalize_score.json",
            {
                "state": {"scores": {"a": 100, "b": 0}},
                "action": "normalize_score",
                "expected": {"status": "success", "runs": 20, "distinct_values_at_least": {"a": 5}},
            },
            id="many values in many runs",
        ),
        pytest.param(
            "gen1_derived_pressure.json",
            {
                "list": "bookkeeping",
                "name": "bounds_changed:not-heard-of-yet",
                "state": {
                    "node": {
                        "total": 100,
                        "watermark": 80,
                        "reserved": 50,
                        "buffer": 3,
                        "capacity_pressure": 0,
                        "pressure_accounted_for": 0,
                    },
                    "pod": {"reserved": 4, "buffer": 3, "capacity_pressure": 0, "min": 1, "max": 4},
                },
                "action": "bounds_changed",
                "expected": {
                    "node": {"reserved": 52, "buffer": 5},
                    "pod": {"reserved": 6, "buffer": 5, "min": 1, "max": 6},
                },
            },
            id="of whom nothing was heard may hold the new maximum",
        ),
    ],
)
def test_the_shape_allows_more_than_is_here(file: str, case: Json) -> None:
    outcome = attempted(RUNNERS[file], case)
    assert outcome.verdict == "passed", outcome.detail


@pytest.mark.parametrize(
    ("file", "case"),
    [
        ("node_operations.json", {"initial": INITIAL, "steps": [{"op": "dance"}]}),
        ("transactional_map.json", {"steps": [["dance", "m1"]]}),
        ("derived_reconcile_queue.json", {"list": "queue", "steps": [{"dance": 1, "at_ms": 0}]}),
        ("derived_schedule_and_migrate.json", {"list": "filter", "state": {}, "action": {"dance": 1}}),
        ("gen1_derived_pressure.json", {"list": "dance"}),
        ("pod_state_extraction.json", {"action": "dance"}),
    ],
)
def test_what_is_not_known_fails(file: str, case: Json) -> None:
    assert attempted(RUNNERS[file], case).verdict == "failed"


UNIT = {"cpu_milli": 250, "mem_bytes": 2**30}
SCALING = {"loadAverageFractionTarget": 1.0, "memoryUsageFractionTarget": 0.5, "enableLFCMetrics": False}


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    ("file", "case"),
    [
        pytest.param("agent_goal_cu.json",
                     {"state": {"compute_unit": UNIT, "scaling_config": SCALING, "system_metrics": {"load1": 0.5}},
                      "expected": {"cpu": 2.0, "has_all_metrics": True, "tolerance": 1e-6, "note": "a remark"}},
                     id="metrics left out"),
        pytest.param("agent_revision_source.json",
                     {"steps": [{"op": "next", "expect_value": 1}, {"op": "advance", "ms": 5},
                                {"op": "observe", "value": 1, "expect": {"latency_ms": 5, "flags": 0}},
                                {"op": "observe", "value": 1, "expect": None, "note": "a remark"}]},
                     id="flags left out"),
        pytest.param("derived_pod_reconcile.json",
                     {"action": "reconcile_pod",
                      "state": {"node_total": 10000, "node_reserved_including_pod": 6000,
                                "pod": {"reserved": 500, "requested": 1000, "factor": 250}},
                      "expected": {"patch_vm_approved_to": 1000, "reported_as_failing": False}}, id="what is usual"),
        pytest.param("permit_reconcile.json",
                     {"action": "reconcile_pod_reserved",
                      "state": {"node": {"cpu_milli": {"total": 10, "reserved": 4},
                                         "mem_bytes": {"total": 1, "reserved": 0}},
                                "pod": {"uid": "a", "cpu_milli": {"reserved": 4, "requested": 6, "factor": 1},
                                        "mem_bytes": {"reserved": 0}}},
                      "expected": {"done": True}}, id="a pod and a node as they usually are"),
        pytest.param("derived_reconcile_queue.json",
                     {"list": "queue", "steps": [{"at_ms": 5, "enqueue": ["a", "Added", "x"]},
                                                 {"next": {"kind": "Added", "object": "x"}}, {"finish": None},
                                                 {"at_ms": 6, "next": None}]}, id="the same moment"),
        pytest.param("derived_permit_protocol.json",
                     {"request": {"method": "GET"}, "state": None, "pod_updates": None,
                      "expected": {"status": 400, "body": None, "vm_patch": None, "permit": None}}, id="nulls"),
        pytest.param("config_defaults.json",
                     {"list": "scheduler_profile", "expected": {"multiPoint": ["AutoscaleEnforcer"]}}, id="a part"),
    ],
)  # fmt: skip
def test_optional_parts(file: str, case: dict[str, Json]) -> None:
    outcome = attempted(RUNNERS[file], without_remarks(case))
    assert outcome.verdict == "passed", outcome
