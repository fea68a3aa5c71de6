"""The size that a machine should have, around its goal (C38)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from situate.vm.agent.decide.desired_size import ABOVE_MAXIMUM, desired_size
from situate.vm.agent.decide.outcomes import record_upscale_request, start_monitor_connection, with_system_metrics
from situate.vm.agent.model.state import AgentState, DownscaleDenied
from situate.vm.model.resource_amounts import Amounts
from tests.vm.agent.builders import GIB, agent_state, needs, units

pytestmark = pytest.mark.rule("vm:C38")


def loaded(number: float, use: int = 1, most: int = 4) -> AgentState:
    return with_system_metrics(start_monitor_connection(agent_state(use, most=most)), needs(number))


def denied(state: AgentState, had: Amounts, refused: Amounts) -> AgentState:
    return replace(state, monitor=replace(state.monitor, denied=DownscaleDenied(0, had, refused)))


@pytest.mark.parametrize(
    ("load", "want"),
    [(0, 1), (1, 1), (3, 3), (9, 4)],
    ids=["not below the minimum", "one", "three", "not above the maximum"],
)
def test_the_goal_is_clamped(load: int, want: int) -> None:
    assert desired_size(loaded(load), 0).resources == units(want)


def test_without_metrics_nothing_shrinks_and_the_bounds_hold() -> None:
    assert desired_size(agent_state(use=3), 0).resources == units(3)
    assert desired_size(agent_state(use=6, most=4), 0).resources == units(4)


def test_the_guests_wish_for_memory_holds_for_ten_seconds() -> None:
    state = record_upscale_request(loaded(1, use=2), 1_000, cpu=False, memory=True)
    found = desired_size(state, 4_000)
    assert (found.resources, found.wanted_for_ms) == (units(3), 7_000)
    assert desired_size(state, 11_000).resources == units(1)


def test_the_guests_wish_is_for_more_than_it_had_when_it_was_said() -> None:
    """Not more than it had just agreed to do with."""
    state = loaded(1, use=2)
    state = replace(state, monitor=replace(state.monitor, approved=units(1)))
    assert desired_size(record_upscale_request(state, 0, cpu=False, memory=True), 1).resources == units(3)


def test_a_wish_that_the_goal_has_fulfilled_already_changes_nothing() -> None:
    state = record_upscale_request(loaded(4, use=2), 0, cpu=True, memory=True)
    assert desired_size(state, 1).wanted_for_ms is None


def test_a_denied_downscale_holds_for_five_seconds() -> None:
    state = denied(loaded(1, use=3), units(3), units(2))
    found = desired_size(state, 1_000)
    assert (found.resources, found.denied_for_ms, found.warnings) == (units(3), 4_000, ())
    assert desired_size(state, 5_000).resources == units(1)


def test_a_denied_downscale_counts_even_above_the_maximum() -> None:
    state = denied(loaded(1, use=3, most=2), units(3), units(2))
    found = desired_size(state, 0)
    assert (found.resources, found.warnings) == (units(3), (ABOVE_MAXIMUM,))


def test_whoever_stays_above_the_maximum_in_one_resource_is_told_why() -> None:
    state = denied(loaded(1, use=3, most=2), Amounts.from_values(250, 3 * GIB), Amounts.from_values(250, 2 * GIB))
    found = desired_size(state, 0)
    assert (found.resources, found.warnings) == (Amounts.from_values(500, 3 * GIB), (ABOVE_MAXIMUM,))


def test_after_a_denial_never_more_is_held_than_there_was() -> None:
    had = Amounts.from_values(600, 2 * GIB + 5)  # no multiple of the unit
    state = denied(loaded(1, use=3, most=2), had, Amounts.from_values(500, 2 * GIB))
    assert desired_size(state, 0).resources == had
