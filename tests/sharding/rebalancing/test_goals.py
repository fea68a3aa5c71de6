"""Fewest moves to each goal, against every arrangement of small pools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.sharding.rebalancing import Goal, PlacedObject, Plan, may_move, misses_goal, plan


def objects(counts: dict[str, int], *, movable: bool = True) -> list[PlacedObject]:
    return [PlacedObject(f"{name}-{n}", name, movable=movable) for name, count in counts.items() for n in range(count)]


def counts_after(listed: Sequence[PlacedObject], found: Plan, live: Sequence[str]) -> Counter[str]:
    targets = {move.uid: move.target for move in (*found.forced, *found.voluntary)}
    after = Counter(dict.fromkeys(live, 0))
    after.update(targets.get(each.uid, each.executor) for each in listed)
    return after


def reaches(goal: Goal, counts: Sequence[int]) -> bool:
    """The goals as the reference words them."""
    mean = sum(counts) / len(counts)
    match goal:
        case Goal.EVEN:
            return max(counts) - min(counts) <= 1
        case Goal.BOUNDED:
            return max(counts) < 1.25 * mean + 1 - 1e-9
        case Goal.TWO_SIDED:
            return max(counts) < 1.25 * mean + 1 - 1e-9 and min(counts) > 0.75 * mean - 1 + 1e-9


def all_counts(total: int, size: int) -> Iterator[tuple[int, ...]]:
    if size == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in all_counts(total - first, size - 1):
            yield (first, *rest)


@settings(max_examples=150)
@given(
    st.sampled_from(Goal),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 5), min_size=1),
    st.dictionaries(st.sampled_from("xy"), st.integers(0, 3)),
)
@pytest.mark.rule("sharding:B6")
def test_no_arrangement_that_reaches_the_goal_needs_fewer_moves(
    goal: Goal, living: dict[str, int], dead: dict[str, int]
) -> None:
    listed, live = objects({**living, **dead}), sorted(living)
    found = plan(goal, listed, live)
    orphans = sum(dead.values())
    fewest = min(
        max(sum(max(0, living[name] - after) for name, after in zip(live, each, strict=True)) + orphans, 0)
        for each in all_counts(len(listed), len(live))
        if reaches(goal, each)
    )
    assert found.reached
    assert found.moves == fewest
    assert len(found.forced) == orphans
    after = counts_after(listed, found, live)
    assert reaches(goal, [after[name] for name in live])
    assert all(move.origin != move.target for move in (*found.forced, *found.voluntary))


@given(st.sampled_from(Goal), st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), min_size=1))
def test_a_pool_is_beyond_its_goal_if_and_only_if_something_is_to_be_moved(goal: Goal, counts: dict[str, int]) -> None:
    assert misses_goal(goal, counts) is bool(plan(goal, objects(counts), sorted(counts)).voluntary)


@pytest.mark.parametrize("goal", Goal)
def test_the_first_moves_are_the_most_useful(goal: Goal) -> None:
    counts = {"a": 30, "b": 20, "c": 1, "d": 0}
    listed = objects(counts)
    found = plan(goal, listed, sorted(counts))
    largest = 30
    for made in range(1, len(found.voluntary) + 1):
        after = counts_after(listed, Plan(voluntary=found.voluntary[:made]), sorted(counts))
        assert max(after.values()) <= largest
        largest = max(after.values())


@pytest.mark.parametrize("goal", Goal)
def test_what_may_not_move_stays_and_the_plan_says_so(goal: Goal) -> None:
    listed = objects({"a": 10}, movable=False) + objects({"b": 2, "c": 0})
    found = plan(goal, listed, ["a", "b", "c"])
    assert not found.reached
    assert found.why.startswith("objects that must not move keep a")
    assert not [move for move in found.voluntary if move.origin == "a"]
    assert plan(goal, objects({"a": 3}, movable=False), ["b"]).moves == 3  # orphans have to move


def test_objects_are_moved_in_their_order() -> None:
    found = plan(Goal.EVEN, objects({"a": 4, "b": 0}), ["a", "b"])
    assert [move.uid for move in found.voluntary] == ["a-0", "a-1"]


def test_without_executors_nothing_is_reached_unless_there_is_nothing() -> None:
    assert not plan(Goal.EVEN, objects({"a": 1}), []).reached
    assert plan(Goal.EVEN, [], []).reached


@pytest.mark.rule("sharding:B6")
def test_large_pools_end_within_a_quarter_of_the_mean() -> None:
    counts = {f"e{number}": 20 * number for number in range(50)}
    listed, live = objects(counts), sorted(counts)
    for goal in Goal:
        after = counts_after(listed, plan(goal, listed, live), live)
        assert max(after.values()) <= -(-5 * len(listed) // (4 * len(live)))


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({}, True),
        ({"migratable": False}, False),
        ({"completed": True}, False),
        ({"remaining_work_s": 4.9}, False),
        ({"remaining_work_s": 5.0}, True),
    ],
)
def test_who_is_never_moved(fields: dict[str, bool | float], want: bool) -> None:
    given_fields = {"migratable": True, "completed": False, "remaining_work_s": None, "move_cost_s": 5.0, **fields}
    assert may_move(**given_fields) is want  # type: ignore[arg-type]  # a table of fields
