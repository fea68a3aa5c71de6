"""A newcomer's share of successive choices, also where rules let its turns pass."""

from __future__ import annotations

import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from situate.sharding.strategies.min_metric_score.slow_start import SlowStart


@settings(max_examples=60)
@given(st.floats(0.05, 1), st.floats(0, 1), st.randoms(use_true_random=False))
def test_turns_that_pass_are_not_made_up_for(share: float, eager: float, chance: random.Random) -> None:
    slow = SlowStart(share)
    slow.put("old", 100, 1)
    slow.put("new", 0, 1)
    went = []
    for _ in range(60):
        taken = slow.allows("new") and chance.random() < eager
        assert slow.allows("new") is slow.would_allow("new")
        slow.record_choice("new" if taken else "old")
        went.append(taken)
    for start in range(60):
        for end in range(start + 1, 61):
            assert sum(went[start:end]) <= math.ceil(share * (end - start) - 1e-6)


def test_who_is_a_newcomer() -> None:
    slow = SlowStart(0.5)
    slow.put("only", 0, 1)
    assert not slow.is_newcomer("only")
    slow.put("old", 10, 1)
    assert [each for each in ("only", "old") if slow.is_newcomer(each)] == ["only"]
    slow.put("only", 5, 1)
    assert not slow.is_newcomer("only")  # half of the mean is not below it
    slow.put("small", 1, 0.1)
    assert not slow.is_newcomer("small")  # by its capacity it has as much as the others
    slow.drop("old")
    slow.put("only", 0, 1)
    assert slow.is_newcomer("only")


def test_a_newcomer_that_has_caught_up_and_lost_everything_waits_anew() -> None:
    slow = SlowStart(0.5)
    slow.put("old", 10, 1)
    slow.put("new", 0, 1)
    assert not slow.allows("new")
    slow.record_choice("old")
    assert slow.allows("new")
    slow.put("new", 9, 1)
    slow.put("new", 0, 1)
    assert not slow.allows("new")
