from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from situate.framework.plugin_api.compact_scores import Grades

places = st.integers(1, 5).flatmap(
    lambda count: st.tuples(
        st.lists(st.integers(-50, 50), min_size=count, max_size=count),
        st.lists(st.integers(0, count - 1), min_size=1, max_size=20),
    )
)


def normalized(scores: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """As plugins do: by the score itself, the lowest and the highest."""
    low, high = int(scores.min()), int(scores.max())
    return (scores - low) * 100 // (high - low or 1)


@given(places)
def test_normalizing_each_score_once_is_normalizing_every_node(case: tuple[list[int], list[int]]) -> None:
    values, of_node = np.array(case[0], dtype=np.int64), np.array(case[1], dtype=np.intp)
    grades = Grades(values, of_node, np.bincount(of_node, minlength=len(values)) > 0)
    assert grades.by_node().tolist() == [case[0][place] for place in case[1]]
    assert grades.spread_over_nodes(normalized(grades.present_values)).tolist() == normalized(grades.by_node()).tolist()


def test_the_nodes_own_scores_are_taken_as_they_are() -> None:
    grades = Grades(np.array([3, 1, 3], dtype=np.int64))
    assert grades.by_node().tolist() == grades.present_values.tolist() == [3, 1, 3]
    assert grades.spread_over_nodes(np.array([7, 8, 9], dtype=np.int64)).tolist() == [7, 8, 9]
