"""Scenarios of the shape of Neon's own, which the runner has to know besides those that are there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.neon_scenarios import scenario
from tests.conformance.outcome import attempted

Json = Any


def vm(name: str, node: str, reserved: int, *, migratable: bool = False, created_at: int = 0) -> dict[str, Json]:
    return {"name": name, "node": node, "reserved": reserved, "created_at": created_at, "migratable": migratable}


A, B = vm("A", "n1", 4), vm("B", "n1", 6, migratable=True, created_at=1)
SMALL_B, E = vm("B", "n1", 3, migratable=True, created_at=1), vm("E", "n1", 3, migratable=True, created_at=2)
TWO = {"n1": 10, "n2": 10}
MOVED: list[Json] = [["request", "A", 7], ["migration_created", "B", {"for": "A"}]]


@pytest.mark.parametrize(
    ("nodes", "vms", "events", "expected"),
    [
        pytest.param(
            {**TWO, "n3": 10},
            [A, B],
            [*MOVED, ["migration_failed", "B"]],
            {"granted_now": {"A": 4}, "claims": [], "next_migration": None},
            id="one that failed is not picked again at once, wherever it could go",
        ),
        pytest.param(
            TWO,
            [A, SMALL_B, E],
            [*MOVED, ["migration_failed", "B"]],
            {"claims": [], "next_migration": "E"},
            id="another is",
        ),
        pytest.param(
            TWO,
            [A, SMALL_B, vm("P", "n1", 3)],
            [*MOVED, ["pod_deleted", "P"], ["schedule_target", "B"]],
            {"target_node_not": "n1", "granted_now": {"A": 7}, "B_still_running_on": "n1", "claims": []},
            id="room that appears is no target",
        ),
        pytest.param(
            TWO,
            [A, B],
            [*MOVED, ["scheduler_restart"]],
            {"claims": [{"vm": "A", "amount": 3, "node": "n1"}], "reserved_now": {"n1": 10}},
            id="open claims survive",
        ),
        pytest.param(
            TWO,
            [A, B],
            [*MOVED, ["target_bound", "B", "n2"], ["migration_succeeded", "B"], ["source_pod_deleted", "B"]],
            {
                "granted_before_source_deleted": {"A": 4},
                "granted_at_end": {"A": 7},
                "reserved_at_end": {"n1": 7, "n2": 6},
                "never_above_capacity": True,
            },
            id="step by step",
        ),
        pytest.param(
            {"n1": 20, "n2": 10},
            [vm("A", "n1", 14), B],
            [["request", "A", 17], ["migration_created", "B", {"for": "A"}], ["target_bound", "B", "n1"]],
            {"granted_now": {"A": 14}, "B_still_running_on": "n1"},
            id="bound to its own node",
        ),
    ],
)
def test_events_and_expectations(nodes: Json, vms: Json, events: Json, expected: Json) -> None:
    case = {"nodes": nodes, "vms": vms, "events": events}

    assert scenario({**case, "expected": expected}).verdict == "passed"
    for key, value in expected.items():
        if key != "target_node_not":
            assert scenario({**case, "expected": {**expected, key: another(value)}}).verdict == "failed", key


def another(value: Json) -> Json:
    """What is not expected."""
    if isinstance(value, dict):
        return {key: number + 1 for key, number in value.items()}
    if isinstance(value, list):
        return [*value, {"for": "nobody"}]
    return not value if isinstance(value, bool) else "another"


@pytest.mark.rule("vm:B24", "vm:B27")
@pytest.mark.parametrize(("other", "moves"), [(9, 0), (0, 1)])
def test_a_full_node_is_relieved_only_if_another_has_room_below_its_watermark(other: int, moves: int) -> None:
    vms = [vm("a", "n1", 5, migratable=True), vm("b", "n1", 4, migratable=True)]
    case = {
        "nodes": TWO,
        "watermark": 0.8,
        "vms": [*vms, vm("c", "n2", other)],
        "events": [["balance_until_quiet", 10]],
    }

    assert scenario({**case, "expected": {"total_migrations": moves}}).verdict == "passed"


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([*MOVED, ["request", "A", 2]], {"migration_of_B": "cancelled; B stays on n1"}, id="cancelled"),
        pytest.param([*MOVED, ["target_bound", "B", "n2"]],
                     {"granted_now": {"A": 4}, "claims": [{"for": "A", "source": "B"}]}, id="a claim with its source"),
        pytest.param([["request", "A", 2]], {"migration_of_B": "never started", "total_migrations": 0}, id="never"),
    ],
)  # fmt: skip
def test_words_for_a_migration(events: list[Json], expected: Json) -> None:
    case = {"nodes": TWO, "vms": [{"name": "A", "node": "n1", "reserved": 4}, B], "watermark": None, "events": events}
    outcome = scenario({**case, "expected": expected})
    assert outcome.verdict == "passed", outcome


@pytest.mark.finding("R1")
@pytest.mark.parametrize("backwards", [False, True])
def test_the_order_of_expectations_means_nothing(backwards: bool) -> None:
    expected = [
        ("granted_now", {"A": 4}),
        ("claims", [{"for": "A", "amount": 3}]),
        ("after", [["source_pod_deleted", "B"], {"A": 7}]),
        ("granted_at_end", {"A": 7}),
    ]
    case = {"nodes": TWO, "vms": [A, B], "events": MOVED, "expected": dict(expected[:: -1 if backwards else 1])}
    assert scenario(case).verdict == "passed", scenario(case)


@pytest.mark.finding("R1")
def test_a_pod_that_never_was_pending_fails_by_name() -> None:
    case = {"nodes": TWO, "vms": [A], "events": [], "expected": {"Q_placed_on": "n1"}}
    assert "no pod_pending of Q" in attempted(scenario, case).detail
