"""Series of touched pages (C37)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vm.agent.decide.working_set import expected_pages, project_next_highest, true_working_set_size

pytestmark = pytest.mark.rule("vm:C37")


@pytest.mark.parametrize(
    ("series", "want"),
    [
        pytest.param([1, 2, 3, 4, 5, 6], 6, id="it rises evenly: the last"),
        pytest.param([1, 2, 3, 9, 15, 21], 3, id="it rises three times as fast and more from there on"),
        pytest.param([1, 2, 3, 6, 9, 12], 12, id="just three times: still the same work"),
        pytest.param([5, 3, 3, 4, 4, 4], 3, id="a decrease is no slope, so any increase is too much"),
    ],
)
def test_where_the_series_breaks(series: list[float], want: float) -> None:
    assert true_working_set_size(series, offset=1, window=2) == want


@pytest.mark.parametrize(("offset", "window"), [(4, 1), (2, 4)])
def test_what_gives_no_slope_is_refused(offset: int, window: int) -> None:
    with pytest.raises(ValueError, match="at least"):
        true_working_set_size([1.0] * 9, offset, window)


def test_one_value_has_no_slope() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        project_next_highest([1.0])


@given(st.lists(st.floats(0, 1e9), min_size=9, max_size=60), st.booleans())
def test_what_is_expected_is_within_half_a_step_of_what_was_seen(series: list[float], largest: bool) -> None:
    found = expected_pages(series, 4, 5, use_largest=largest)
    assert series[0] <= found <= max(series) * 1.5 + 1e-6


def test_growth_beyond_the_true_size_is_not_carried_on() -> None:
    series = [10.0] * 10 + [100.0 * step for step in range(1, 20)]
    assert expected_pages(series, 4, 5, use_largest=False) == 10.0
    assert expected_pages(series, 4, 5, use_largest=True) > 1900.0
