"""When a machine counts as unhealthy (C35), and which failures are told (D21)."""

from __future__ import annotations

import pytest

from situate.vm.agent.decide.health import Health, is_worth_logging
from situate.vm.agent.model.settings import AgentSettings

LIMITS = AgentSettings().limits


@pytest.mark.rule("vm:C35")
@pytest.mark.parametrize(
    ("heard_ms", "now_ms", "silent"),
    [
        pytest.param(None, 20_000, False, id="it has just begun"),
        pytest.param(None, 20_001, True, id="never heard"),
        pytest.param(30_000, 50_000, False, id="heard 20 s ago"),
        pytest.param(30_000, 50_001, True, id="silent for longer"),
    ],
)
def test_a_silent_monitor_is_unhealthy(heard_ms: int | None, now_ms: int, silent: bool) -> None:
    health = Health(0) if heard_ms is None else Health(0).with_monitor_contact(heard_ms)
    assert health.complaints(now_ms, LIMITS) == (("monitor silent",) if silent else ())


@pytest.mark.rule("vm:C35")
@pytest.mark.parametrize(("kind", "threshold"), [("scheduler", 5), ("vm", 2), ("monitor", 2)])
def test_too_many_failures_in_two_minutes_are_unhealthy(kind: str, threshold: int) -> None:
    health = Health(0)
    for number in range(threshold):
        health = health.with_failure(kind, 1000 * number, LIMITS)
    health = health.with_monitor_contact(110_000)
    assert health.complaints(110_000, LIMITS) == ()
    one_more = health.with_failure(kind, 110_000, LIMITS)
    assert one_more.complaints(110_001, LIMITS) == (f"{kind} failures",)
    assert one_more.complaints(120_001, LIMITS) == ()  # the first is two minutes old


@pytest.mark.rule("vm:D21")
def test_failures_are_told_at_the_threshold_and_at_every_tenth_of_it() -> None:
    assert [number for number in range(45) if is_worth_logging(number)] == [1, 10, 20, 30, 40]
    assert [number for number in range(99) if is_worth_logging(number, 3)] == [3, 30, 60, 90]
