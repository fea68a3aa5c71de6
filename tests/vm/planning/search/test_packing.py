from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vm.planning.search.packing import assign_nodes, fit_together

Amount = tuple[int, int]
AMOUNTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=4)
ROOM = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4)


def wishes(amounts: list[Amount], room: list[Amount], order: list[int]) -> list[list[int]]:
    """Of each the nodes that have room for it alone, in this order."""
    return [
        [node for node in order if node < len(room) and all(a <= r for a, r in zip(amount, room[node], strict=True))]
        for amount in amounts
    ]


def tried(amounts: list[Amount], wished: list[list[int]], room: list[Amount]) -> tuple[int, ...] | None:
    """The first of all combinations that fits."""
    for chosen in product(*wished):
        left = [list(each) for each in room]
        for amount, node in zip(amounts, chosen, strict=True):
            left[node] = [free - wanted for free, wanted in zip(left[node], amount, strict=True)]
        if all(free >= 0 for each in left for free in each):
            return chosen
    return None


@pytest.mark.rule("vm:B18", "vm:B13")
@given(AMOUNTS, ROOM, st.permutations(range(4)))
def test_it_is_the_first_combination_that_fits(amounts: list[Amount], room: list[Amount], order: list[int]) -> None:
    wished = wishes(amounts, room, order)
    found = tried(amounts, wished, room)
    assert assign_nodes(amounts, wished, dict(enumerate(room))) == found
    assert fit_together(amounts, wished, dict(enumerate(room))) is (found is not None)


@pytest.mark.rule("vm:B18")
def test_who_has_many_nodes_to_go_to_is_in_nobodys_way() -> None:
    assert fit_together([(9,), (1,)], [[0, 1], [1, 2]], {}), "their room is not even looked at"
    assert not fit_together([(1,), (1,)], [[0], [0]], {0: (1,)})
