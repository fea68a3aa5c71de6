"""The runner of the migration controller's vectors can fail, and knows what the shape allows beyond the cases here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.neon_migration import cases, migration_case
from tests.conformance.outcome import attempted
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
