"""`bench.vm` at its smallest ends with the JSON object that it promises; no speed is asserted."""

from __future__ import annotations

from random import Random

import pytest
from bench.vm_permits import decision_times, decisions
from bench.vm_plan import NODES, NOW, RULES, SHAPES, Product, cluster

from situate.vm.planning.plan_for_pod import plan
from tests.bench.test_benchmarks import last_line
from tests.vm.objects import node


def test_plans_are_measured_with_the_filters_that_are_shipped() -> None:
    seen, product = cluster(Random(1), *SHAPES[0]), Product()
    product.see(seen)
    made = product.plan(seen)
    assert made.moves
    assert made == plan(seen, "short", NOW, RULES), "they refuse nothing that there is"
    product.engine_sees(*(node(f"n{each}", spec={"unschedulable": True}) for each in range(NODES)))
    assert not product.plan(seen).moves


@pytest.mark.rule("vm:B32")
@pytest.mark.parametrize(("nodes", "machines", "times"), [(100, 2000, 5000), (4, 20, 472)])
def test_every_decision_that_is_measured_is_a_grant(nodes: int, machines: int, times: int) -> None:
    assert decisions(nodes, machines) == times
    if machines < times:
        assert decision_times(nodes, machines, times, 1).keys() >= {"decision_ms_p99", "decision_cpu_ms_p99"}


@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.rule("vm:B11", "vm:B18", "vm:B19", "vm:B23", "vm:B43")
def test_plans_hand_over_cancel_and_start() -> None:
    found = last_line("bench.vm", "--quick", "--rows", "plans,handover,cancel,ready")
    keys = {"plan_ms_p99", "handover_ms_p50", "handover_ms_p99", "cancel_ms_p50", "cancel_ms_p99", "ready_s"}
    assert all(found[key] > 0 for key in keys)
    assert found["plan_cost_ratio_few"] == 1
    assert 1 <= found["plan_cost_ratio_mean"] <= found["plan_cost_ratio_worst"]
