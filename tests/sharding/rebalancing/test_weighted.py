"""Fewest objects to move below a limit of load, against every arrangement of a few, and proofs for more."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.sharding.rebalancing import PlacedObject, Plan, weighted_plan
from situate.sharding.rebalancing.bins import Bin, Item
from situate.sharding.rebalancing.exact import fewest_moves

LOADS = st.sampled_from([0.1, 0.5, 1.0, 2.0, 3.0, 5.0])


def held(loads: Sequence[float], homes: Sequence[int], *, stuck: frozenset[int] = frozenset()) -> list[PlacedObject]:
    """Home -1 is an executor that is gone."""
    return [
        PlacedObject(f"o{number}", f"e{home}" if home >= 0 else "gone", load, number not in stuck)
        for number, (load, home) in enumerate(zip(loads, homes, strict=True))
    ]


def fewest(loads: Sequence[float], homes: Sequence[int], size: int, limit: float, stuck: frozenset[int]) -> int | None:
    """By trying every arrangement."""
    best = None
    for where in product(range(size), repeat=len(loads)):
        if any(where[place] != homes[place] for place in stuck if homes[place] >= 0):
            continue
        totals = [0.0] * size
        for load, number in zip(loads, where, strict=True):
            totals[number] += load
        if max(totals) <= limit * (1 + 1e-9):
            moves = sum(now != was for now, was in zip(where, homes, strict=True))
            best = moves if best is None else min(best, moves)
    return best


def check(listed: Sequence[PlacedObject], live: Sequence[str], limit: float, found: Plan) -> None:
    """The moves keep to the limit, move what may move, and are told apart."""
    targets = {move.uid: move.target for move in (*found.forced, *found.voluntary)}
    totals = dict.fromkeys(live, 0.0)
    for each in listed:
        totals[targets.get(each.uid, each.executor)] += each.load
        assert each.movable or each.uid not in targets or each.executor not in totals
    assert max(totals.values()) <= limit * (1 + 1e-9)
    assert all(move.origin not in totals for move in found.forced)
    assert all(move.origin in totals for move in found.voluntary)


@settings(max_examples=250)
@given(
    st.lists(st.tuples(LOADS, st.integers(-1, 2)), max_size=6),
    st.integers(1, 3),
    st.sampled_from([1.0, 3.0, 4.0, 6.0, 9.0]),
    st.frozensets(st.integers(0, 5), max_size=2),
)
def test_a_few_objects_are_settled_exactly(
    placed: list[tuple[float, int]], size: int, limit: float, stuck: frozenset[int]
) -> None:
    loads, homes = [load for load, _ in placed], [min(home, size - 1) for _, home in placed]
    stuck = frozenset(place for place in stuck if place < len(loads))
    listed, live = held(loads, homes, stuck=stuck), [f"e{number}" for number in range(size)]
    found = weighted_plan(listed, live, limit)
    want = fewest(loads, homes, size, limit, stuck)
    assert found.reached is (want is not None)
    if want is None:
        assert found.moves == 0
        assert found.why
    else:
        assert found.moves == want
        check(listed, live, limit, found)


@pytest.mark.parametrize("seed", range(6))
def test_more_than_sixteen_need_at_most_a_tenth_more_than_the_fewest(seed: int) -> None:
    """The fewest by the search over subsets, which the test before has proved for a few."""
    chance = random.Random(seed)
    size, number = chance.randint(2, 5), 17
    loads = [round(chance.choice([chance.uniform(1, 3), chance.expovariate(0.3) + 0.1]), 2) for _ in range(number)]
    homes = [min(size - 1, int(chance.random() ** 2 * size)) if chance.random() > 0.1 else -1 for _ in range(number)]
    limit = max(sum(loads) / size * chance.choice([1.02, 1.05, 1.25]), *loads)
    listed, live = held(loads, homes), [f"e{each}" for each in range(size)]
    found = weighted_plan(listed, live, limit)
    assert found.reached
    check(listed, live, limit, found)
    items = [Item(*each) for each in zip(loads, homes, strict=True)]
    better = fewest_moves(items, [Bin(limit)] * size, below=found.moves)
    if better is not None:
        assert found.moves <= 1.1 * sum(now != was for now, was in zip(better, homes, strict=True))


def test_a_large_pool_is_settled_with_the_fewest_moves_that_can_be_proved() -> None:
    """What has to leave each executor at least is a bound that no plan can beat."""
    chance = random.Random(5)
    live = [f"e{number}" for number in range(40)]
    listed = [PlacedObject(f"o{n}", live[int(chance.random() ** 3 * 40)], chance.uniform(1, 5)) for n in range(4000)]
    limit = 1.25 * sum(each.load for each in listed) / len(live)
    found = weighted_plan(listed, live, limit)
    least = 0
    for name in live:
        loads = sorted((each.load for each in listed if each.executor == name), reverse=True)
        excess = sum(loads) - limit
        while excess > 0:
            excess -= loads.pop(0)
            least += 1
    check(listed, live, limit, found)
    assert least <= found.moves <= 1.1 * least


@pytest.mark.parametrize(
    ("listed", "limit", "why"),
    [
        pytest.param(
            [PlacedObject("big", "e0", 9)], 5, "object big has a load of 9, above the limit of 5", id="one too large"
        ),
        pytest.param(
            held([3, 3], [0, 0], stuck=frozenset({0, 1})), 5, "must not move put executor e0 above", id="stuck"
        ),
        pytest.param(held([4, 4, 4], [0, 0, 1]), 5, "12 need an executor, but the free capacity is 10", id="too much"),
        pytest.param(held([3, 3, 3], [0, 0, 1]), 5, "no assignment was found", id="no packing"),
    ],
)
def test_what_cannot_be_moves_nothing_and_is_reported(listed: list[PlacedObject], limit: float, why: str) -> None:
    found = weighted_plan(listed, ["e0", "e1"], limit)
    assert (found.moves, found.reached) == (0, False)
    assert why in found.why


def test_what_fits_exactly_fits() -> None:
    assert fewest_moves([Item(2, 0), Item(2, 0)], [Bin(2), Bin(2)]) in ((0, 1), (1, 0))
    assert fewest_moves([Item(2, -1), Item(2, -1), Item(2, -1)], [Bin(2), Bin(1), Bin(4)]) is not None
    assert fewest_moves([Item(2, 0), Item(2, 0)], [Bin(2), Bin(2)], below=1) is None
    assert fewest_moves([Item(2, 0)], [Bin(1)]) is None
    assert fewest_moves([], []) == ()


def test_objects_go_to_who_has_the_most_room_and_the_heaviest_first() -> None:
    listed = held([5, 4, 3, 1], [0, 0, 0, 1])
    found = weighted_plan(listed, ["e0", "e1", "e2"], 6)
    assert [(move.uid, move.target) for move in found.voluntary] == [("o0", "e2"), ("o1", "e1")]


def test_without_executors_nothing_is_reached() -> None:
    assert weighted_plan(held([1], [0]), [], 5).why == "no executor is live"
    assert weighted_plan([], [], 5).reached
