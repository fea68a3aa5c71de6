"""What an agent does next (C2, C39): the order of asking, the limits, the waits and the words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from situate.vm.agent.decide.core import Actions, next_actions
from situate.vm.agent.decide.outcomes import (
    apply_downscale_denial,
    apply_machine,
    apply_monitor_consent,
    apply_permit,
    end_monitor_connection,
    finish_vm_write,
    record_monitor_failure,
    record_plugin_failure,
    record_vm_failure,
    start_monitor_connection,
    start_monitor_request,
    start_plugin_request,
    start_vm_write,
    with_system_metrics,
)
from situate.vm.agent.model.revisions import RevisionAt
from situate.vm.agent.model.state import AgentState, MonitorRequest
from situate.vm.model.resource_amounts import Amounts
from tests.vm.agent.builders import GIB, agent_state, guest, needs, units

NOW = 1_000_000


def permitted(state: AgentState, number: int, at_ms: int = NOW) -> AgentState:
    """After a request for so many units was granted."""
    asked = start_plugin_request(state, at_ms, units(number))
    return apply_permit(asked, asked.number, at_ms, units(number), RevisionAt()).state


def settled(use: int = 1) -> AgentState:
    """Connected, permitted what is used, with the load that goes with it."""
    state = with_system_metrics(start_monitor_connection(agent_state(use=use)), needs(use))
    return permitted(state, use)


def actions(state: AgentState, at_ms: int = NOW) -> Actions:
    return next_actions(state, at_ms).actions


def warnings(state: AgentState, at_ms: int = NOW) -> tuple[str, ...]:
    return next_actions(state, at_ms).warnings


@pytest.mark.rule("vm:C2", "vm:C39")
def test_up_goes_from_the_scheduler_over_the_machine_to_the_monitor() -> None:
    state = with_system_metrics(settled(), needs(3))
    first = actions(state)
    assert first.plugin is not None
    assert (first.plugin.target, first.plugin.last_permit, first.vm) == (units(3), units(1), None)
    state = permitted(state, 3)
    second = actions(state)
    assert second.vm is not None
    assert (second.plugin, second.vm.target, second.monitor_up) == (None, units(3), None)
    state = start_vm_write(state, units(3))
    assert actions(state).monitor_up is None
    state = finish_vm_write(state, state.number)
    third = actions(state)
    assert third.monitor_up is not None
    assert (third.plugin, third.vm, third.monitor_up.target) == (None, None, units(3))


@pytest.mark.rule("vm:C2", "vm:C39")
def test_down_goes_from_the_monitor_over_the_machine_to_the_scheduler() -> None:
    state = with_system_metrics(settled(2), needs(1))
    first = actions(state)
    assert first.monitor_down is not None
    assert (first.plugin, first.vm, first.monitor_down.target) == (None, None, units(1))
    state = start_monitor_request(state, MonitorRequest.DOWNSCALE, units(1))
    state = apply_monitor_consent(state, state.number, NOW, RevisionAt()).state
    second = actions(state)
    assert second.vm is not None
    assert (second.plugin, second.vm.target) == (None, units(1))
    state = start_vm_write(state, units(1))
    state = finish_vm_write(state, state.number)
    third = actions(state)
    assert third.plugin is not None
    assert third.plugin.target == units(1)


@pytest.mark.rule("vm:C39")
def test_no_size_above_the_permit() -> None:
    state = with_system_metrics(settled(), needs(4))
    asked = start_plugin_request(state, NOW, units(4))
    state = apply_permit(asked, asked.number, NOW, units(2), RevisionAt()).state
    change = actions(state).vm
    assert change is not None
    assert change.target == units(2)


@pytest.mark.rule("vm:C39")
def test_no_size_below_what_the_monitor_approved() -> None:
    state = with_system_metrics(settled(4), needs(1))
    assert actions(state).vm is None  # nobody has asked the guest
    state = start_monitor_request(state, MonitorRequest.DOWNSCALE, units(3))
    state = apply_monitor_consent(state, state.number, NOW, RevisionAt()).state
    change = actions(state).vm
    assert change is not None
    assert change.target == units(3)


@pytest.mark.rule("vm:C39")
def test_without_a_monitor_nothing_shrinks_and_growing_goes_on() -> None:
    state = end_monitor_connection(settled(2))
    assert actions(with_system_metrics(state, needs(1))).vm is None
    assert "there's no active connection" in warnings(with_system_metrics(state, needs(1)))[-1]
    grown = actions(with_system_metrics(permitted(state, 3), needs(3))).vm
    assert grown is not None
    assert grown.target == units(3)


@pytest.mark.rule("vm:C35")
def test_without_a_scheduler_scaling_within_the_last_permit_goes_on() -> None:
    state = permitted(with_system_metrics(settled(2), needs(1)), 4)
    state = start_plugin_request(with_system_metrics(state, needs(4)), NOW, units(4))
    state = record_plugin_failure(state, state.number, NOW)
    change = actions(state).vm
    assert change is not None
    assert change.target == units(4)


@pytest.mark.rule("vm:C39")
def test_the_first_contact_says_what_is_used() -> None:
    state = with_system_metrics(start_monitor_connection(agent_state(use=2)), needs(4))
    first = actions(state).plugin
    assert first is not None
    assert (first.target, first.last_permit) == (units(2), None)


@pytest.mark.rule("vm:C39")
def test_the_scheduler_hears_of_us_every_fifteen_seconds() -> None:
    state = settled(2)
    assert actions(state).wait_ms == 15_000
    assert actions(state, NOW + 14_999).plugin is None
    again = actions(state, NOW + 15_000).plugin
    assert again is not None
    assert again.target == units(2)


@pytest.mark.rule("vm:C39")
@pytest.mark.parametrize(("later_ms", "asked"), [(1_999, False), (2_000, True)])
def test_after_a_denial_it_is_asked_again_in_two_seconds(later_ms: int, asked: bool) -> None:
    state = with_system_metrics(settled(), needs(3))
    state = start_plugin_request(state, NOW, units(3))
    state = apply_permit(state, state.number, NOW + 500, units(1), RevisionAt()).state
    planned = next_actions(state, NOW + later_ms)
    assert (planned.actions.plugin is not None) == asked
    said = "Wanted to make a request to the scheduler plugin, but previous request for more resources was denied too"
    assert any(each.startswith(said) for each in planned.warnings) != asked


@pytest.mark.rule("vm:B28")
@pytest.mark.parametrize(
    ("retry_after_ms", "again_ms"),
    [
        pytest.param(400, 900, id="as the scheduler says"),
        pytest.param(0, 600, id="not at once, all the same"),
        pytest.param(60_000, 15_000, id="at the next tick at the latest"),
    ],
)
def test_a_scheduler_may_say_when_to_ask_again(retry_after_ms: int, again_ms: int) -> None:
    state = start_plugin_request(with_system_metrics(settled(), needs(3)), NOW, units(3))
    state = apply_permit(state, state.number, NOW + 500, units(1), RevisionAt(), retry_after_ms=retry_after_ms).state
    assert actions(state, NOW + again_ms - 1).plugin is None
    again = actions(state, NOW + again_ms).plugin
    assert again is not None
    assert again.target == units(3)  # its place in the queue is not given up


@pytest.mark.rule("vm:B7", "vm:I5")
@pytest.mark.parametrize("wish", [1, 2], ids=["less than is permitted", "just what is permitted"])
def test_a_wish_that_was_denied_and_is_no_more_is_withdrawn_at_once_and_once(wish: int) -> None:
    state = start_plugin_request(with_system_metrics(settled(), needs(4)), NOW, units(4))
    state = apply_permit(state, state.number, NOW, units(2), RevisionAt(), retry_after_ms=60_000).state
    assert actions(state, NOW + 100).plugin is None
    told = actions(with_system_metrics(state, needs(wish)), NOW + 200).plugin
    assert told is not None
    assert told.target == units(wish)
    state = start_plugin_request(with_system_metrics(state, needs(wish)), NOW + 200, units(wish))
    state = apply_permit(state, state.number, NOW + 300, units(wish), RevisionAt()).state
    assert actions(state, NOW + 400).plugin is None


@pytest.mark.rule("vm:D16")
def test_room_that_was_found_meanwhile_is_asked_for_at_once_and_once() -> None:
    state = start_plugin_request(with_system_metrics(settled(), needs(3)), NOW, units(3))
    denied = apply_permit(state, state.number, NOW + 500, units(1), RevisionAt()).state
    assert actions(apply_machine(denied, guest(1, approved=units(1))).state, NOW + 600).plugin is None
    found = apply_machine(denied, guest(1, approved=units(3))).state
    again = actions(found, NOW + 600).plugin
    assert again is not None
    assert again.target == units(3)
    asked = start_plugin_request(found, NOW + 600, units(3))
    denied = apply_permit(asked, asked.number, NOW + 700, units(1), RevisionAt()).state
    assert actions(denied, NOW + 800).plugin is None  # it says so still, and that is no news


@pytest.mark.rule("vm:C39")
def test_after_a_failure_it_is_asked_again_in_three_seconds() -> None:
    state = start_plugin_request(with_system_metrics(start_monitor_connection(agent_state()), needs(1)), NOW, units(1))
    state = record_plugin_failure(state, state.number, NOW + 100)
    early = next_actions(state, NOW + 3_099)
    assert (early.actions.plugin, early.actions.wait_ms) == (None, 1)
    assert early.warnings == (
        "Wanted to make a request to the scheduler plugin, but previous request failed too recently",
    )
    assert actions(state, NOW + 3_100).plugin is not None


@pytest.mark.rule("vm:C39")
def test_a_machine_is_not_grown_past_a_request_that_says_less() -> None:
    state = with_system_metrics(permitted(settled(), 3), needs(3))
    state = start_plugin_request(replace(state, config=replace(state.config, compat=True)), NOW, units(1))
    planned = next_actions(state, NOW)
    assert planned.actions.vm is None
    assert planned.warnings[-1] == (
        "Wanted to make a request to NeonVM API, but there's already plugin request ongoing"
    )


@pytest.mark.rule("vm:C39")
def test_a_write_that_failed_is_repeated_in_five_seconds() -> None:
    state = start_vm_write(with_system_metrics(permitted(settled(), 3), needs(3)), units(3))
    state = record_vm_failure(state, state.number, NOW)
    early = next_actions(state, NOW + 4_999)
    assert early.actions.vm is None
    assert "Wanted to make a request to NeonVM API, but recent request failed too recently" in early.warnings
    assert actions(state, NOW + 5_000).vm is not None


@pytest.mark.rule("vm:C39", "vm:D21")
def test_a_downscale_goes_unit_by_unit_and_an_upscale_at_once() -> None:
    down = actions(with_system_metrics(settled(4), needs(1))).monitor_down
    assert down is not None
    assert down.target == units(3)
    grown = start_vm_write(with_system_metrics(permitted(settled(1), 4), needs(4)), units(4))
    up = actions(finish_vm_write(grown, grown.number)).monitor_up
    assert up is not None
    assert up.target == units(4)


@pytest.mark.rule("vm:C39")
def test_an_upscale_is_told_before_a_downscale_is_asked_for() -> None:
    state = with_system_metrics(settled(2), needs(1))
    state = replace(
        state, guest=replace(state.guest, use=Amounts.from_values(750, 2 * GIB), minimum=Amounts.from_values(750, GIB))
    )
    planned = next_actions(state, NOW)
    assert planned.actions.monitor_up is not None
    assert planned.actions.monitor_down is None
    assert planned.warnings[-1] == (
        "Wanted to send vm-monitor downscale request, but waiting on other planned upscale request"
    )


@pytest.mark.rule("vm:C39")
def test_what_the_guest_denied_is_asked_for_again_in_five_seconds() -> None:
    state = start_monitor_request(with_system_metrics(settled(3), needs(1)), MonitorRequest.DOWNSCALE, units(2))
    state = apply_downscale_denial(state, state.number, NOW, RevisionAt()).state
    early = actions(state, NOW + 1)
    assert (early.monitor_down, early.vm, early.wait_ms) == (None, None, 4_999)
    late = actions(state, NOW + 5_000).monitor_down
    assert late is not None
    assert late.target == units(2)


@pytest.mark.rule("vm:C39")
def test_a_monitor_that_failed_is_asked_again_in_three_seconds() -> None:
    state = start_monitor_request(with_system_metrics(settled(3), needs(1)), MonitorRequest.DOWNSCALE, units(2))
    state = record_monitor_failure(state, state.number, NOW)
    early = next_actions(state, NOW + 2_999)
    assert early.actions.monitor_down is None
    assert "Wanted to send vm-monitor downscale request but failed too recently" in early.warnings
    assert actions(state, NOW + 3_000).monitor_down is not None


@pytest.mark.rule("vm:C39")
def test_an_answer_to_a_request_that_is_over_changes_nothing() -> None:
    state = start_plugin_request(with_system_metrics(settled(), needs(3)), NOW, units(3))
    number = state.number
    state = record_plugin_failure(state, number, NOW)
    assert apply_permit(state, number, NOW, units(3), RevisionAt()).state == state
    down = start_monitor_request(with_system_metrics(settled(3), needs(1)), MonitorRequest.DOWNSCALE, units(2))
    anew = start_monitor_connection(end_monitor_connection(down))
    assert apply_monitor_consent(anew, down.number, NOW, RevisionAt()).state == anew


@pytest.mark.rule("vm:D13")
def test_a_machine_that_is_about_to_be_moved_is_left_alone() -> None:
    state = with_system_metrics(permitted(settled(), 3), needs(4))
    assert actions(state) != Actions()
    frozen = apply_machine(state, guest(1, frozen=True)).state
    assert actions(frozen, NOW + 60_000) == Actions()
    thawed = apply_machine(frozen, guest(1)).state
    assert actions(thawed).vm is not None


@pytest.mark.rule("vm:D13")
def test_an_answer_that_speaks_of_a_move_stops_everything_until_the_next_tick() -> None:
    state = start_plugin_request(with_system_metrics(settled(), needs(3)), NOW, units(3))
    state = apply_permit(state, state.number, NOW, units(3), RevisionAt(), migrates=True).state
    assert actions(state) == Actions(wait_ms=15_000)
    assert actions(state, NOW + 15_000).plugin is not None


@pytest.mark.rule("vm:D13")
def test_of_a_machine_that_is_about_to_be_moved_a_decrease_may_be_answered_with_what_was() -> None:
    state = start_plugin_request(with_system_metrics(permitted(settled(1), 3), needs(1)), NOW, units(1))
    answered = apply_permit(state, state.number, NOW, units(3), RevisionAt(), migrates=True)
    assert "greater than request" in answered.objection
    assert actions(answered.state, NOW + 5_000) == Actions(wait_ms=10_000)


@pytest.mark.rule("vm:D23")
def test_a_decrease_is_told_when_the_machine_has_shrunk_and_not_when_it_was_written() -> None:
    state = with_system_metrics(settled(3), needs(2))
    state = start_monitor_request(state, MonitorRequest.DOWNSCALE, units(2))
    state = apply_monitor_consent(state, state.number, NOW, RevisionAt()).state
    state = start_vm_write(state, units(2))
    state = finish_vm_write(state, state.number, generation=7)
    state = apply_machine(state, guest(2, grown=units(3), generation=7)).state
    assert actions(state).plugin is None
    told = actions(apply_machine(state, guest(2, grown=units(2), generation=7)).state).plugin
    assert told is not None
    assert told.target == units(2)


@pytest.mark.rule("vm:D23")
def test_the_guest_is_told_of_what_it_has_and_not_of_what_was_written() -> None:
    state = start_vm_write(with_system_metrics(permitted(settled(), 3), needs(3)), units(3))
    state = finish_vm_write(state, state.number, generation=7)
    assert actions(apply_machine(state, guest(3, grown=units(1), generation=7)).state).monitor_up is None
    up = actions(apply_machine(state, guest(3, grown=units(2), generation=7)).state).monitor_up
    assert up is not None
    assert up.target == units(2)


@pytest.mark.rule("vm:D23")
def test_an_object_from_before_our_write_says_nothing_of_its_size() -> None:
    state = start_vm_write(with_system_metrics(permitted(settled(), 3), needs(3)), units(3))
    state = finish_vm_write(state, state.number, generation=7)
    assert apply_machine(state, guest(1, generation=6)).state.guest.use == units(3)
    assert apply_machine(state, guest(2, generation=8)).state.guest.use == units(2)


@pytest.mark.rule("vm:D23")
def test_a_write_of_unknown_outcome_counts_as_used_until_the_object_is_read() -> None:
    state = start_vm_write(with_system_metrics(permitted(settled(), 3), needs(3)), units(3))
    state = record_vm_failure(state, state.number, NOW, unclear=True)
    state = with_system_metrics(state, needs(1))
    later = actions(state, NOW + 15_000).plugin
    assert later is not None
    assert later.target == units(3)
    assert apply_machine(state, guest(1)).state.possible_use == units(3)  # a watch may lag behind
    assert apply_machine(state, guest(1), fresh=True).state.possible_use == units(1)


@pytest.mark.rule("vm:B28")
def test_a_permit_that_is_not_used_yet_is_renewed() -> None:
    state = start_vm_write(with_system_metrics(permitted(settled(), 3), needs(3)), units(3))
    state = record_vm_failure(state, state.number, NOW + 14_000)
    again = actions(state, NOW + 15_000).plugin
    assert again is not None
    assert again.target == units(3)


@pytest.mark.rule("vm:C2")
def test_a_wish_that_fell_while_the_machine_is_being_written_is_told_afterwards() -> None:
    state = start_vm_write(with_system_metrics(permitted(settled(), 3), needs(3)), units(3))
    assert actions(with_system_metrics(state, needs(1))).plugin is None


@pytest.mark.rule("vm:D24")
def test_the_permit_falls_when_a_decrease_is_sent() -> None:
    state = with_system_metrics(permitted(settled(1), 3), needs(1))
    told = actions(state).plugin
    assert told is not None
    assert (told.target, told.last_permit) == (units(1), units(1))
    state = start_plugin_request(state, NOW, told.target)
    state = record_plugin_failure(state, state.number, NOW)  # the answer is lost
    assert actions(with_system_metrics(state, needs(3)), NOW + 1).vm is None


@pytest.mark.rule("vm:D24")
def test_as_the_reference_the_permit_falls_with_the_answer() -> None:
    state = with_system_metrics(permitted(agent_state(compat=True), 3), needs(1))
    told = actions(state).plugin
    assert told is not None
    assert told.last_permit == units(3)
    assert start_plugin_request(state, NOW, told.target).plugin.permit == units(3)


@pytest.mark.rule("vm:C18")
@pytest.mark.parametrize(
    ("permit", "why"),
    [
        pytest.param(Amounts.from_values(0, 2 * GIB), "zero", id="zero"),
        pytest.param(units(4), "greater than request", id="more than was asked for"),
        pytest.param(units(1), "less than VM", id="less than is used"),
    ],
)
def test_a_bad_permit_counts_as_a_failure(permit: Amounts, why: str) -> None:
    state = start_plugin_request(with_system_metrics(settled(2), needs(3)), NOW, units(3))
    answered = apply_permit(state, state.number, NOW, permit, RevisionAt())
    assert why in answered.objection
    assert answered.state.plugin.permit == units(2)
    assert answered.state.plugin.failed_at_ms == NOW


@pytest.mark.rule("vm:C18")
def test_a_permit_below_a_write_under_way_is_not_accepted() -> None:
    state = start_vm_write(with_system_metrics(permitted(settled(), 3), needs(3)), units(3))
    state = start_plugin_request(state, NOW, units(3))
    assert "less than VM" in apply_permit(state, state.number, NOW, units(2), RevisionAt()).objection


@pytest.mark.rule("vm:C39")
def test_memory_comes_in_whole_slots_towards_what_is_used() -> None:
    slot = 3 * GIB
    state = agent_state(use=3, most=12, least=3)
    state = replace(state, guest=replace(state.guest, slot=slot, use=Amounts.from_values(750, slot)))
    state = permitted(with_system_metrics(start_monitor_connection(state), needs(5)), 5)
    change = actions(state).vm
    assert change is not None
    assert change.target == Amounts.from_values(1250, slot)
