"""`bench.vm` at its smallest ends with the JSON object that it promises; no speed is asserted."""

from __future__ import annotations

import pytest

from tests.bench.test_benchmarks import last_line


@pytest.mark.slow
@pytest.mark.rule("vm:B11", "vm:B18", "vm:B19", "vm:B23", "vm:B43")
def test_plans_hand_over_cancel_and_start() -> None:
    found = last_line("bench.vm", "--quick", "--rows", "plans,handover,cancel,ready")
    keys = {"plan_ms_p99", "handover_ms_p50", "handover_ms_p99", "cancel_ms_p50", "cancel_ms_p99", "ready_s"}
    assert all(found[key] > 0 for key in keys)
    assert found["plan_cost_ratio_few"] == 1
    assert 1 <= found["plan_cost_ratio_mean"] <= found["plan_cost_ratio_worst"]
