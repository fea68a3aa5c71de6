"""Executors hold and are told of what is theirs."""

from __future__ import annotations

import pytest

from tests.sharding.split_caches import measure_split_caches


@pytest.mark.rule("sharding:B8")
def test_executors_hold_their_own_objects_and_are_sent_events_of_no_others() -> None:
    found = measure_split_caches(3, 12, 24)
    assert found.held_ratio <= 1.01
    assert found.received_ratio <= 1.01
    assert found.events > 12 + 24
    assert found.moved >= 12, "each was drained, and what it had was another's"
    assert found.share < 0.5, "where each watches everything it is 1"
