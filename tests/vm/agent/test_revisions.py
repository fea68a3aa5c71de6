"""Numbers of wishes, and how long they took (C40)."""

from __future__ import annotations

import pytest

from situate.vm.agent.core import next_actions
from situate.vm.agent.outcomes import with_system
from situate.vm.agent.revisions import (
    DOWNSCALE,
    MOST_IN_FLIGHT,
    NO_REVISION,
    UPSCALE,
    Latency,
    Revision,
    RevisionAt,
    Revisions,
    propagated,
)
from tests.vm.agent.builders import agent_state, needs

pytestmark = pytest.mark.rule("vm:C40")


def test_a_hundred_are_in_flight_and_older_ones_forgotten() -> None:
    revisions = Revisions()
    for number in range(1, MOST_IN_FLIGHT + 2):
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
    assert propagated(250, target, Revision(2)) == (Revision(3, DOWNSCALE), Latency(150, DOWNSCALE))
    assert propagated(250, target, Revision(3)) == (Revision(3), None)
    assert propagated(250, RevisionAt(), NO_REVISION) == (NO_REVISION, None)


def test_each_change_of_what_is_wanted_takes_the_next_number() -> None:
    state = agent_state(use=2)
    seen = []
    for at_ms, load in ((0, 2), (1, 4), (2, 4), (3, 1)):
        state = next_actions(with_system(state, needs(load)), at_ms).state
        seen.append((state.target_revision.value, state.target_revision.flags))
    assert seen == [(0, 0), (1, UPSCALE), (1, UPSCALE), (2, DOWNSCALE)]
