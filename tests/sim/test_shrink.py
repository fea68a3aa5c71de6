from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from situate.sim.shrink import shrink


@given(st.lists(st.integers(0, 5), max_size=40), st.sets(st.integers(0, 39), min_size=1, max_size=4))
def test_what_is_left_fails_and_cannot_lose_a_step(values: list[int], needed: set[int]) -> None:
    steps = list(enumerate(values))
    needed = {n for n in needed if n < len(steps)}

    def fails(candidate: Sequence[tuple[int, int]]) -> bool:
        return needed <= {number for number, _ in candidate}

    assert {number for number, _ in shrink(steps, fails, most_tries=100_000)} == needed or len(steps) < 2 or not needed


def test_it_stops_after_its_tries() -> None:
    tries = 0

    def fails(candidate: Sequence[int]) -> bool:
        nonlocal tries
        tries += 1
        return 99 in candidate

    assert 99 in shrink(range(100), fails, most_tries=5)
    assert tries == 5
