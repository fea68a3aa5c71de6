"""controller-sharding's lease states."""

from __future__ import annotations

import pytest

from tests.sharding.leases.ring_leases import RingState, ring_state


@pytest.mark.rule("sharding:X16")
@pytest.mark.parametrize(
    ("holder", "age", "duration", "acquired", "expected"),
    [
        ("s", 0.0, 10.0, True, "ready"),
        ("s", 9.99, 10.0, True, "ready"),
        ("s", 10.0, 10.0, True, "expired"),
        ("s", 19.99, 10.0, True, "expired"),
        ("s", 20.0, 10.0, True, "uncertain"),
        ("s", 1.0, 10.0, False, "expired"),
        ("s", None, 10.0, True, "expired"),
        ("s", 1.0, None, True, "expired"),
        ("", 69.99, 10.0, True, "dead"),
        (None, 70.0, 10.0, True, "orphaned"),
        ("other", 70.0, 10.0, True, "orphaned"),
        ("other", 0.0, 10.0, True, "dead"),
        ("", None, 10.0, True, "dead"),
        ("", 500.0, None, True, "dead"),
        ("", 500.0, 10.0, False, "dead"),
    ],
)
def test_the_states_and_their_bounds(
    holder: str | None, age: float | None, duration: float | None, acquired: bool, expected: str
) -> None:
    assert ring_state("s", holder, age, duration, acquired) == expected


@pytest.mark.rule("sharding:X16")
def test_only_who_is_ready_gets_new_work() -> None:
    assert [state for state in RingState if state.takes_new_work] == [RingState.READY]
