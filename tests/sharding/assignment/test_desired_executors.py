"""How many executors are wanted: at once when there is more to do, slowly when there is less, none for nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.sharding.assignment.desired_executors import SizingConfig, SizingState, desired_executors

TEN = SizingConfig(10, half_life_s=60)


def reported(config: SizingConfig, loads: list[tuple[float, float]]) -> list[int]:
    """At (time, open weight)."""
    state, found = SizingState(), []
    for now, weight in loads:
        sizing = desired_executors(state, config, weight, now)
        state = sizing.state
        found.append(sizing.desired)
    return found


@pytest.mark.parametrize(
    ("loads", "want"),
    [
        pytest.param([(0, 1)], [1], id="one for a little"),
        pytest.param([(0, 100)], [10], id="exactly"),
        pytest.param([(0, 101)], [11], id="one more for the rest"),
        pytest.param([(0, 10), (1, 100)], [1, 10], id="up at once"),
        pytest.param([(0, 100), (60, 20), (120, 20), (600, 20)], [10, 6, 4, 2], id="down by halves"),
        pytest.param([(0, 100), (1, 0), (2, 5)], [10, 0, 1], id="nothing at once when nothing is open"),
        pytest.param([(0, 100), (-50, 100)], [10, 10], id="a clock that goes back"),
    ],
)
@pytest.mark.rule("sharding:B16")
def test_what_is_wanted(loads: list[tuple[float, float]], want: list[int]) -> None:
    assert reported(TEN, loads) == want


def test_it_is_bounded_while_anything_is_open() -> None:
    config = SizingConfig(10, least=2, most=5)
    assert reported(config, [(0, 1), (1, 1000), (2, 0)]) == [2, 5, 0]
    assert reported(SizingConfig(10, least=0), [(0, 1)]) == [1]


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1e4)), max_size=10), st.floats(0.1, 100))
def test_there_are_always_enough_and_none_for_nothing(steps: list[tuple[float, float]], per_executor: float) -> None:
    state, now, most = SizingState(), 0.0, 0.0
    for elapsed, weight in steps:
        now += elapsed
        sizing = desired_executors(state, SizingConfig(per_executor), weight, now)
        state, most = sizing.state, max(most, weight)
        assert (sizing.desired == 0) is (weight == 0)
        assert sizing.desired * per_executor >= weight * (1 - 1e-6)
        assert sizing.desired <= max(1, math.ceil(most / per_executor))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"per_executor": 0}, "per_executor is 0"),
        ({"per_executor": math.nan}, "per_executor is nan"),
        ({"per_executor": 1, "least": 5, "most": 4}, "least is 5 and most 4"),
        ({"per_executor": 1, "least": 0, "most": 0}, "least is 0 and most 0"),
        ({"per_executor": 1, "half_life_s": -1}, "half_life_s is -1"),
    ],
)
def test_settings_that_cannot_be_used_are_named(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SizingConfig(**fields)  # type: ignore[arg-type]  # a table of fields
