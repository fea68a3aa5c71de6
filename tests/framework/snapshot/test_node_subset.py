from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from situate.framework.snapshot.node_subset import Parts


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), max_size=10))
def test_equal_masks_are_one_part_with_the_nodes_of_the_mask(masks: list[list[bool]]) -> None:
    parts = Parts()
    for mask in masks:
        part = parts.of(np.array(mask))
        assert part.nodes.tolist() == [node for node, passes in enumerate(mask) if passes]
        assert parts.of(np.array(mask)) is part


def test_a_part_works_things_out_once() -> None:
    part = Parts().of(np.array([True, False, True]))
    assert part.plan("names", lambda: ["a", "c"]) is part.plan("names", lambda: ["other"])


def test_parts_of_many_nodes_are_forgotten_before_they_fill_the_memory() -> None:
    parts = Parts()
    first = np.ones(2**18, dtype=np.bool_)
    second = first.copy()
    second[0] = False
    kept = parts.of(first)
    parts.of(second)
    assert parts.of(first) is not kept
    assert parts.of(first).nodes.tolist() == kept.nodes.tolist()
