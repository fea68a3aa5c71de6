from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from situate.vpod.policy.spread import NO_GAP, unevenness, widest_gap

COUNTS = st.lists(st.tuples(st.integers(0, 3) | st.integers(-(2**31), 2**31 - 1), st.booleans()), max_size=12)


@given(COUNTS, st.sampled_from([1, -1]))
def test_unevenness_is_the_sum_over_the_other_compared_places(places: list[tuple[int, bool]], step: int) -> None:
    own = np.array([count for count, _ in places], dtype=np.int64)
    compared = np.array([flag for _, flag in places], dtype=np.bool_)
    expected = [
        sum(abs(mine + step - other) for j, (other, flag) in enumerate(places) if flag and j != i)
        for i, (mine, _) in enumerate(places)
    ]
    assert unevenness(own, compared, step).tolist() == expected


@given(COUNTS)
def test_widest_gap_is_the_greatest_over_the_other_compared_places(places: list[tuple[int, bool]]) -> None:
    own = np.array([count for count, _ in places], dtype=np.int64)
    compared = np.array([flag for _, flag in places], dtype=np.bool_)
    expected = [
        max((abs(mine + 1 - other) for j, (other, flag) in enumerate(places) if flag and j != i), default=NO_GAP)
        for i, (mine, _) in enumerate(places)
    ]
    assert widest_gap(own, compared).tolist() == expected
