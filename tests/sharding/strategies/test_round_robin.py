"""RoundRobin: everybody in turn, through every history of members."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.sharding.model.executors import ExecutorStatus
from situate.sharding.strategies import RoundRobin
from tests.sharding.strategies.telling import FULL, HEALTHY, NOTHING, UNHEALTHY, chosen, healthy


@pytest.mark.rule("sharding:K7")
def test_a_newcomer_goes_to_the_end_and_the_pointer_stays() -> None:
    strategy = RoundRobin()
    healthy(strategy, "p", "q", "r")
    assert chosen(strategy, 1) == "p"
    healthy(strategy, "s")
    assert chosen(strategy, 4) == "q r s p"


def test_after_the_last_it_stands_on_the_first_so_a_newcomer_waits_its_turn() -> None:
    strategy = RoundRobin()
    healthy(strategy, "p", "q")
    assert chosen(strategy, 2) == "p q"
    healthy(strategy, "s")
    assert chosen(strategy, 3) == "p q s"


@pytest.mark.parametrize(
    ("leaver", "want"),
    [
        pytest.param("q", "r s p", id="the next one: its successor"),
        pytest.param("p", "q r s", id="the one that was chosen"),
        pytest.param("s", "q r p", id="the last one"),
    ],
)
def test_when_somebody_leaves(leaver: str, want: str) -> None:
    for status in (None, FULL, UNHEALTHY):
        strategy = RoundRobin()
        healthy(strategy, "p", "q", "r", "s")
        assert chosen(strategy, 1) == "p"
        strategy.observe_executor(leaver, status)
        assert chosen(strategy, 3) == want


def test_when_the_next_one_leaves_from_the_end_the_first_is_next() -> None:
    strategy = RoundRobin()
    healthy(strategy, "p", "q", "r")
    assert chosen(strategy, 2) == "p q"
    strategy.observe_executor("r", None)
    assert chosen(strategy, 2) == "p q"


def test_coming_back_is_joining() -> None:
    strategy = RoundRobin()
    healthy(strategy, "p", "q", "r")
    strategy.observe_executor("p", UNHEALTHY)
    healthy(strategy, "p", "p")
    assert chosen(strategy, 3) == "q r p"


CHANGES = st.tuples(st.sampled_from("abcdef"), st.sampled_from([HEALTHY, HEALTHY, FULL, UNHEALTHY, None]))
STEPS = st.lists(st.one_of(CHANGES, st.integers(1, 9)), max_size=40)


@settings(max_examples=300)
@given(STEPS)
@pytest.mark.rule("sharding:X3")
def test_between_changes_each_window_of_k_names_each_of_the_k_once(
    steps: list[tuple[str, ExecutorStatus | None] | int],
) -> None:
    strategy, well = RoundRobin(), set[str]()
    window: list[str] = []
    for step in steps:
        if isinstance(step, tuple):
            executor, status = step
            strategy.observe_executor(executor, status)
            after = well | {executor} if status is HEALTHY else well - {executor}
            window = window if after == well else []
            well = after
        elif well:
            for _ in range(step):
                window = [*window, strategy.choose_executor(NOTHING)][-len(well) :]
                assert set(window) <= well
                assert len(set(window)) == len(window)


@given(STEPS, st.sets(st.sampled_from("abcdef"), min_size=1))
def test_restricted_choices_are_fair_too_and_leave_others_their_turn(
    steps: list[tuple[str, ExecutorStatus | None] | int], allowed: set[str]
) -> None:
    strategy = RoundRobin()
    healthy(strategy, *"abcdef")
    for step in steps:
        if isinstance(step, int):
            chosen(strategy, step)
    found = [strategy.choose_among(NOTHING, allowed) for _ in range(3 * len(allowed))]
    for start in range(0, len(found), len(allowed)):
        assert set(found[start : start + len(allowed)]) == allowed


def test_one_rolling_restart_leaves_everybody_in_turn() -> None:
    """The peer leaves everything on one executor then (section 13, X3)."""
    strategy = RoundRobin()
    names = ["sts-0", "sts-1", "sts-2"]
    healthy(strategy, *names)
    for name in reversed(names):
        for status in (UNHEALTHY, None, UNHEALTHY, HEALTHY):
            strategy.observe_executor(name, status)
    assert chosen(strategy, 6) == "sts-2 sts-1 sts-0 sts-2 sts-1 sts-0"
