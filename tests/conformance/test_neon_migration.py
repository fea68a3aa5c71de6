"""The runner of the migration controller's vectors can fail, and knows what the shape allows beyond the cases here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.neon_migration import cases, migration_case
from tests.conformance.outcome import attempted
from tests.conformance.remarks import without_remarks
from tests.conformance.runner import VECTORS

CASES = cases(json.loads((VECTORS / "neon" / "migration_controller.json").read_text()))


@pytest.mark.parametrize("case", [each for each in CASES if "from" in each], ids=lambda case: case["name"])
def test_another_end_is_noticed(case: dict[str, Any]) -> None:
    given = {key: value for key, value in case.items() if key != "note"}
    assert attempted(migration_case, {**given, "to": "elsewhere"}).verdict == "failed"


@pytest.mark.parametrize("case", [each for each in CASES if "steps" in each], ids=lambda case: case["name"])
def test_another_expectation_is_noticed(case: dict[str, Any]) -> None:
    last = {**case["steps"][-1], "expect": {"vm_phase": "Elsewhere"}}
    assert attempted(migration_case, {**case, "steps": [*case["steps"][:-1], last]}).verdict == "failed"


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        ({"from": "Running", "when": "migration completed", "to": "Succeeded", "vm_phase": "Running"}, "passed"),
        ({"from": "Running", "when": "target pod gone", "to": "Failed", "condition": "Degraded=True"}, "passed"),
        ({"from": "Running", "when": "hypervisor reports failed", "to": "Failed", "vm_phase": "Running"}, "passed"),
        ({"from": "Running", "when": "otherwise", "to": "Running", "requeue_s": 1}, "passed"),
        ({"from": "Running", "when": "otherwise", "to": "Running", "requeue_s": 2}, "failed"),
        ({"from": "Running", "when": "vm not found", "to": "Failed", "condition": "Degraded=True"}, "passed"),
        ({"from": "Pending", "when": "vm absent", "to": "Failed", "condition": "Degraded=True"}, "passed"),
        ({"from": "Pending", "when": "otherwise", "to": "Pending", "requeue_s": 1}, "passed"),
        ({"from": "Pending", "when": "target pod running", "to": "Running", "condition": "Available=True"}, "passed"),
        ({"from": "Pending", "when": "target pod running", "to": "Running", "vm_phase": "Running"}, "failed"),
        ({"from": "", "when": "vm absent", "to": "Failed", "condition": "Degraded=True"}, "passed"),
        ({"from": "", "when": "vm absent", "to": "Pending"}, "failed"),
        ({"from": "", "when": "the moon is full", "to": "Pending"}, "skipped"),
        ({"from": "Succeeded", "when": "otherwise", "to": "Succeeded", "vm_phase": "Running"}, "passed"),
        ({"from": "Failed", "when": "otherwise", "to": "Failed", "vm_phase": "Running"}, "passed"),
        ({"from": "Pending", "when": "the moon is full", "to": "Failed"}, "skipped"),
    ],
)
def test_rows_that_are_not_here(row: dict[str, Any], verdict: str) -> None:
    assert attempted(migration_case, row).verdict == verdict


def test_preparation_takes_a_write_at_each_call() -> None:
    states: list[dict[str, Any]] = [
        {"finalizers": ["vm.neon.tech/finalizer"], "controlled_by_vm": False},
        {"controlled_by_vm": True, "conditions": []},
        {"conditions": ["Available=Unknown"], "target_pod_name": ""},
        {"target_pod_name_contains": "vm-", "phase": "", "vm_phase": "Running"},
        {"phase": "Pending", "vm_phase": "PreMigrating"},
    ]
    steps = [{"reconcile": number, "expect": {**state, "result": "done"}} for number, state in enumerate(states, 1)]
    played = attempted(migration_case, {"steps": [{"create_migration": "m1"}, *steps]})
    assert played.verdict == "passed", played.detail


DEGRADED = {"type": "Degraded", "status": "True", "reason": "Reconciling"}
ACCEPTED = "target pod running and vm phase PreMigrating and start accepted"


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"from": "any non-deleted", "when": "VM object not found", "to": "Failed",
                      "conditions": [DEGRADED]},
                     id="any phase"),
        pytest.param({"from": "Pending", "when": "target pod not found", "to": "Pending", "requeue_s": 1,
                      "action": "create target pod (anti-affinity)", "why": "a remark"}, id="no target pod"),
        pytest.param({"from": "Pending", "when": "target pod pending", "to": "Pending", "requeue_s": 1}, id="pending"),
        pytest.param({"from": "Pending", "when": ACCEPTED, "to": "Running", "vm_phase": "Migrating",
                      "conditions": [{"type": "Available", "status": "True", "reason": "Reconciling"}]}, id="accepted"),
        pytest.param({"from": "Pending", "when": "source pod lacks the migration's owner reference", "to": "Pending",
                      "action": "add a non-controller owner reference to the source pod"}, id="the source's owner"),
        pytest.param({"from": "Running", "when": "hypervisor reports completed", "to": "Succeeded",
                      "vm_phase": "Running"}, id="completed"),
        pytest.param({"from": "Running", "when": "hypervisor reports failed", "to": "Failed", "vm_phase": "Running",
                      "conditions": ["Degraded=True"]}, id="failed"),
        pytest.param({"from": "Pending|Running", "when": "migration deleted and VM object not found", "to": "gone"},
                     id="deleted, and the machine too"),
        pytest.param({"from": "Pending", "when": "target pod failed", "to": "Failed", "condition": "Degraded=True"},
                     id="one of two ends"),
    ],
)  # fmt: skip
def test_rows_of_the_readme(row: dict[str, Any]) -> None:
    outcome = attempted(migration_case, without_remarks(row))
    assert outcome.verdict == "passed", outcome
    assert attempted(migration_case, {**row, "to": "Elsewhere"}).verdict == "failed"
    wrong = attempted(migration_case, {**row, "conditions": [{"type": "Degraded", "status": "Maybe"}]})
    assert wrong.verdict == "failed", "conditions were not looked at"


@pytest.mark.finding("R1")
def test_a_row_with_a_field_that_nobody_knows_fails_by_name() -> None:
    outcome = attempted(migration_case, {"from": "", "when": "vm phase is Running", "to": "Pending", "mood": 1})
    assert (outcome.verdict, "mood" in outcome.detail) == ("failed", True)


@pytest.mark.finding("R1")
def test_conditions_of_a_step_by_type_status_and_reason() -> None:
    unknown = {"type": "Available", "status": "Unknown", "reason": "Reconciling"}
    steps = [{"create_migration": "m1"}, {"reconcile": 1}, {"reconcile": 2}]
    for reason, verdict in (("Reconciling", "passed"), ("Dreaming", "failed")):
        last = {"reconcile": 3, "expect": {"conditions": [{**unknown, "reason": reason}]}, "why": "a remark"}
        assert attempted(migration_case, {"steps": [*steps, last]}).verdict == verdict
