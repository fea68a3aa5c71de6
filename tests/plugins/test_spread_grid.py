"""The grid that PodTopologySpread keeps says what counting all nodes afresh would."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from situate.framework.snapshot.topology_counts import TallyDefinition
from situate.plugins.pod_topology_spread_grid import Grids

ROWS = 3
numbers = st.lists(st.integers(0, 6), min_size=20, max_size=20)
moves = st.lists(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 12)), max_size=20), max_size=12)


@given(st.lists(st.integers(0, ROWS - 1), min_size=20, max_size=20), numbers, moves)
def test_a_grid_follows_the_pods(rows: list[int], first: list[int], moved: list[list[tuple[int, int]]]) -> None:
    grids, question = Grids(), TallyDefinition("of a kind", "host", lambda _: 1)
    domain, here = np.array(rows, dtype=np.intp), np.array(first, dtype=np.int64)
    for step in [[], *moved]:
        for node, number in step:
            here[node] = number
        grid = grids.updated_grid(question, domain, ROWS, here)
        row, column = np.divmod(grid.cell, grid.columns)
        assert row.tolist() == rows
        assert column.tolist() == here.tolist()
        assert np.flatnonzero(grid.present).tolist() == sorted(set(grid.cell.tolist()))
        assert len(grid.present) == ROWS * grid.columns


def test_grids_of_other_kinds_and_of_other_nodes_are_kept_apart() -> None:
    grids, domain = Grids(), np.zeros(2, dtype=np.intp)
    one, other = (TallyDefinition(name, "host", lambda _: 1) for name in "ab")
    kept = grids.updated_grid(one, domain, 1, np.array([0, 1]))
    assert grids.updated_grid(other, domain, 1, np.array([2, 0])) is not kept
    assert grids.updated_grid(one, domain.copy(), 1, np.array([1, 1])) is not kept
    assert grids.updated_grid(one, domain, 1, np.array([1, 1])) is kept
    assert kept.cell.tolist() == [1, 1]
