"""Random: uniform, whoever has come and gone."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from situate.sharding.strategies import Random
from tests.sharding.strategies.telling import HEALTHY, NOTHING, UNHEALTHY, healthy


@pytest.mark.parametrize("size", [1, 2, 5, 20])
@pytest.mark.rule("sharding:K7", "sharding:X2")
def test_each_of_k_is_within_five_sigma_of_n_over_k(size: int) -> None:
    strategy = Random(random.Random(20261122))
    healthy(strategy, *(f"gone-{number}" for number in range(3)), *(f"e{number}" for number in range(size)))
    for number in range(3):
        strategy.observe_executor(f"gone-{number}", None)
    draws = 20_000
    counts = Counter(strategy.choose_executor(NOTHING) for _ in range(draws))
    sigma = (draws * (1 / size) * (1 - 1 / size)) ** 0.5
    assert set(counts) == {f"e{number}" for number in range(size)}
    assert all(abs(count - draws / size) <= 5 * sigma for count in counts.values())


def test_the_same_seed_and_history_give_the_same_choices() -> None:
    found = []
    for _ in range(2):
        strategy = Random(random.Random(7))
        healthy(strategy, "a", "b", "c")
        strategy.observe_executor("a", UNHEALTHY)
        strategy.observe_executor("a", HEALTHY)
        found.append([strategy.choose_executor(NOTHING) for _ in range(50)])
    assert found[0] == found[1]
    assert set(found[0]) == {"a", "b", "c"}
