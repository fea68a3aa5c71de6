from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from situate.framework.snapshot.node_subset import NodeSubsets


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), max_size=10))
def test_equal_masks_are_one_part_with_the_nodes_of_the_mask(masks: list[list[bool]]) -> None:
    parts = NodeSubsets()
    for mask in masks:
        part = parts.subset_of(np.array(mask))
        assert part.nodes.tolist() == [node for node, passes in enumerate(mask) if passes]
        assert parts.subset_of(np.array(mask)) is part


def test_a_part_works_things_out_once() -> None:
    part = NodeSubsets().subset_of(np.array([True, False, True]))
    assert part.plan("names", lambda: ["a", "c"]) is part.plan("names", lambda: ["other"])


def test_parts_of_many_nodes_are_forgotten_before_they_fill_the_memory() -> None:
    parts = NodeSubsets()
    first = np.ones(2**18, dtype=np.bool_)
    second = first.copy()
    second[0] = False
    kept = parts.subset_of(first)
    parts.subset_of(second)
    assert parts.subset_of(first) is not kept
    assert parts.subset_of(first).nodes.tolist() == kept.nodes.tolist()
