"""Numbers of wishes, and how long they took (C40)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from situate.vm.agent.decide.core import next_actions
from situate.vm.agent.decide.outcomes import apply_machine, start_plugin_request, with_system_metrics
from situate.vm.agent.model.revisions import (
    DOWNSCALE,
    MAX_IN_FLIGHT,
    NO_REVISION,
    UPSCALE,
    Latency,
    Revision,
    RevisionAt,
    Revisions,
    newest_revision,
)
from situate.vm.model.resource_amounts import Amounts
from tests.vm.agent.builders import GIB, agent_state, guest, needs

pytestmark = pytest.mark.rule("vm:C40")


def test_a_hundred_are_in_flight_and_older_ones_forgotten() -> None:
    revisions = Revisions()
    for number in range(1, MAX_IN_FLIGHT + 2):
        revision, revisions = revisions.next(number * 1000, 0)
        assert revision.value == number
    assert revisions.observe(999_000, Revision(1)) == (revisions, None)
    revisions, latency = revisions.observe(103_000, Revision(2, UPSCALE))
    assert latency == Latency(101_000, UPSCALE)


def test_what_was_observed_takes_older_ones_with_it() -> None:
    revisions = Revisions()
    for at_ms in (0, 10, 20):
        _, revisions = revisions.next(at_ms, 0)
    revisions, latency = revisions.observe(100, Revision(2))
    assert latency == Latency(90, 0)
    assert revisions.observe(200, Revision(1))[1] is None
    assert revisions.observe(200, Revision(3))[1] == Latency(180, 0)


def test_a_number_of_an_agent_before_us_is_no_latency() -> None:
    assert Revisions().observe(5, Revision(77)) == (Revisions(), None)


def test_only_news_has_a_latency() -> None:
    target = RevisionAt(Revision(3, DOWNSCALE), 100)
    assert newest_revision(250, target, Revision(2)) == (Revision(3, DOWNSCALE), Latency(150, DOWNSCALE))
    assert newest_revision(250, target, Revision(3)) == (Revision(3), None)
    assert newest_revision(250, RevisionAt(), NO_REVISION) == (NO_REVISION, None)


def test_each_change_of_what_is_wanted_takes_the_next_number() -> None:
    state = agent_state(use=2)
    seen = []
    for at_ms, load in ((0, 2), (1, 4), (2, 4), (3, 1)):
        state = next_actions(with_system_metrics(state, needs(load)), at_ms).state
        seen.append((state.target_revision.value, state.target_revision.flags))
    assert seen == [(0, 0), (1, UPSCALE), (1, UPSCALE), (2, DOWNSCALE)]


def test_a_wish_is_compared_with_what_is_used_only_once_the_machine_has_reached_it() -> None:
    state = agent_state(use=1, compat=True)
    for at_ms, load in ((0, 2), (1, 4)):
        state = next_actions(with_system_metrics(state, needs(load)), at_ms).state
    assert state.target_revision == Revision(2, UPSCALE)

    late = apply_machine(state, guest(use=1, current_revision=RevisionAt(Revision(1, UPSCALE), 2))).state
    assert next_actions(late, 3).state.target_revision == Revision(2, UPSCALE)

    reached = apply_machine(late, guest(use=1, current_revision=RevisionAt(Revision(2, UPSCALE), 4))).state
    assert next_actions(reached, 5).state.target_revision == Revision(3, UPSCALE)


def test_a_decrease_is_not_held_to_what_the_scheduler_knows() -> None:
    """More CPU is wanted and not permitted: what is written is a decrease, so the monitor's word alone counts."""
    use = Amounts.from_values(250, 2 * GIB)
    state = agent_state(use=2, compat=True)
    state = replace(
        state,
        guest=replace(state.guest, use=use, minimum=Amounts.from_values(500, GIB)),
        system=needs(1),
        plugin=replace(state.plugin, permit=use, revision=Revision(3)),
        monitor=replace(state.monitor, approved=Amounts.from_values(250, GIB), revision=Revision(5)),
        target_revision=Revision(6, DOWNSCALE),
        last_desired=Amounts.from_values(500, GIB),
    )
    change = next_actions(start_plugin_request(state, 0, use), 0).actions.vm
    assert change is not None
    assert (change.target, change.target_revision.revision) == (Amounts.from_values(250, GIB), Revision(5))
