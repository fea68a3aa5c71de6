from __future__ import annotations

from itertools import combinations
from random import Random
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vm.planning.search.cheapest_cover import EXACT_LIMIT, FitTogether, cheapest_cover
from tests.vm.planning.covers import CoverCase, cover_case, optimum, ratio


def brute(case: CoverCase, together: FitTogether, most: int) -> tuple[int, ...]:
    """All sets up to this size, by cost, size and order."""
    found = []
    for size in range(1, most + 1):
        for chosen in combinations(range(len(case.costs)), size):
            freed = case.freed[list(chosen)].sum(axis=0)
            if (freed >= case.need).all() and together(chosen):
                found.append((sum(case.costs[each] for each in chosen), size, chosen))
    return min(found)[2] if found else ()


def anyhow(_chosen: tuple[int, ...]) -> bool:
    return True


@pytest.mark.rule("vm:B18")
@given(st.integers(0, 2**32), st.integers(1, 7))
def test_few_candidates_are_chosen_from_exactly(seed: int, count: int) -> None:
    rng = Random(seed)
    case = cover_case(rng, count)
    assert cheapest_cover(case.costs, case.freed, case.need, anyhow) == brute(case, anyhow, count)


@pytest.mark.rule("vm:B18")
@given(st.integers(0, 2**32), st.integers(4, EXACT_LIMIT))
def test_sets_up_to_three_are_exact_whatever_fits_together(seed: int, count: int) -> None:
    rng = Random(seed)
    case = cover_case(rng, count)
    apart = [set(pair) for pair in combinations(range(count), rng.choice((1, 2, 2))) if rng.random() < 0.3]

    def together(chosen: tuple[int, ...]) -> bool:
        return len(chosen) <= 3 and not any(each.issubset(chosen) for each in apart)

    found = cheapest_cover(case.costs, case.freed, case.need, together)
    assert found == brute(case, together, 3)


@pytest.mark.rule("vm:B18")
def test_many_candidates_are_chosen_from_near_the_optimum() -> None:
    ratios = [ratio(cover_case(Random(seed), 13 + seed % 2)) for seed in range(200)]
    assert mean(ratios) <= 1.05
    assert max(ratios) <= 1.5
    assert min(ratios) >= 1.0


@pytest.mark.rule("vm:B18")
def test_of_many_none_is_chosen_that_is_not_needed() -> None:
    for seed in range(40):
        case = cover_case(Random(seed), 40)
        chosen = list(cheapest_cover(case.costs, case.freed, case.need, anyhow))
        for each in chosen:
            rest = [other for other in chosen if other != each]
            assert not (case.freed[rest].sum(axis=0) >= case.need).all()


@pytest.mark.rule("vm:B18", "vm:I10")
def test_ties_go_to_fewer_and_then_to_the_earlier_ones() -> None:
    freed = np.array([[2], [2], [4], [4]], dtype=np.int64)
    assert cheapest_cover([5, 5, 10, 10], freed, [4], anyhow) == (2,)
    assert cheapest_cover([5, 5, 11, 11], freed, [4], anyhow) == (0, 1)


@pytest.mark.rule("vm:B18")
def test_what_is_short_must_be_covered_in_every_resource() -> None:
    freed = np.array([[9, 1], [1, 9], [5, 5]], dtype=np.int64)
    assert cheapest_cover([1, 1, 3], freed, [5, 5], anyhow) == (0, 1)
    assert cheapest_cover([1, 1, 3], freed, [5, 0], anyhow) == (0,)
    assert cheapest_cover([1, 1, 3], freed, [15, 16], anyhow) == ()
    assert cheapest_cover([], np.zeros((0, 2), dtype=np.int64), [1, 1], anyhow) == ()


@pytest.mark.rule("vm:B18")
def test_targets_that_do_not_fit_together_lead_to_another_set_among_many_too() -> None:
    count = 30
    freed = np.full((count, 1), 2, dtype=np.int64)
    chosen = cheapest_cover(list(range(1, count + 1)), freed, [4], lambda chosen: not {0, 1} & set(chosen))
    assert chosen == (2, 3)
    assert optimum([3, 4], freed[:2], [4]) == 7
