"""MinScheduled: the least loaded, by capacity where it is declared, with newcomers held back if that is wished."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.sharding.model.errors import NoCapacity, NoExecutors, NoHealthyExecutors, Unschedulable
from situate.sharding.model.executors import ExecutorStatus, LiveExecutor
from situate.sharding.strategies import MinScheduled, ObjectFacts, report_member
from tests.sharding.strategies.telling import (
    FULL,
    HEALTHY,
    NOTHING,
    capacities,
    chosen,
    healthy,
    holding,
    refusal,
    scheduled,
)


@pytest.mark.parametrize(
    ("declared", "held", "want"),
    [
        pytest.param({"a": None, "b": None}, {"a": 3, "b": 2}, "b", id="the fewest"),
        pytest.param({"a": 10, "b": 2}, {"a": 3, "b": 1}, "a", id="the least for its capacity"),
        pytest.param({"a": 10, "b": 2}, {"a": 9, "b": 2}, "a", id="nobody who is full"),
        pytest.param({"a": 3, "b": 6}, {"a": 1, "b": 2}, "a", id="equal shares: a was not chosen later"),
        pytest.param({"a": 4, "b": None}, {"a": 1, "b": 2}, "a", id="who declares nothing counts like the largest"),
        pytest.param({"a": 1, "b": None}, {"a": 1, "b": 9}, "b", id="and is never full"),
        pytest.param({"a": 0, "b": 5}, {"b": 4}, "b", id="no capacity at all"),
        pytest.param({"a": -3, "b": 5}, {"b": 4}, "b", id="a capacity that is none"),
        pytest.param({"a": math.nan, "b": 5}, {"b": 4}, "b", id="not a number"),
        pytest.param({"a": math.inf, "b": 5}, {"b": 4}, "b", id="nor an infinite one"),
    ],
)
@pytest.mark.rule("sharding:K7", "sharding:X1")
def test_who_is_chosen(declared: Mapping[str, float | None], held: Mapping[str, int], want: str) -> None:
    strategy = MinScheduled()
    capacities(strategy, declared)
    holding(strategy, held)
    assert strategy.choose_executor(NOTHING) == want


def test_all_at_capacity_is_no_capacity_until_a_place_is_free() -> None:
    strategy = MinScheduled()
    capacities(strategy, {"a": 2, "b": 1})
    strategy.observe_executor("c", FULL)
    holding(strategy, {"a": 2, "b": 1})
    refused = refusal(strategy)
    assert isinstance(refused, NoCapacity)
    assert str(refused) == "NoCapacity: 0 of 3 executors may be chosen: 1 Full, 2 at capacity"
    strategy.observe_completed(ObjectFacts("a has 1"))
    assert chosen(strategy, 2) == "a a"


def test_a_capacity_that_changes_or_is_withdrawn() -> None:
    strategy = MinScheduled()
    capacities(strategy, {"a": 1, "b": 1})
    holding(strategy, {"a": 1, "b": 1})
    report_member(strategy, LiveExecutor("a", "uid", capacity=2))
    assert strategy.choose_executor(NOTHING) == "a"
    report_member(strategy, LiveExecutor("a", "uid", capacity=1))
    assert isinstance(refusal(strategy), NoCapacity)
    report_member(strategy, LiveExecutor("b", "uid"))
    assert strategy.choose_executor(NOTHING) == "b"


def test_ties_go_to_the_least_recently_chosen_then_to_the_smallest_id() -> None:
    strategy = MinScheduled()
    healthy(strategy, "c", "a", "b")
    assert chosen(strategy, 5) == "a b c a b"


def test_weights_are_units_of_capacity() -> None:
    strategy = MinScheduled()
    healthy(strategy, "a", "b")
    strategy.observe_scheduled(ObjectFacts("big", executor="a", weight=3))
    holding(strategy, {"b": 2})
    assert strategy.choose_executor(NOTHING) == "b"
    strategy.observe_scheduled(ObjectFacts("big", executor="a", weight=1))
    assert strategy.choose_executor(NOTHING) == "a"


@settings(max_examples=50)
@given(st.integers(1, 6), st.integers(1, 60))
@pytest.mark.rule("sharding:B6")
def test_what_is_placed_one_by_one_differs_by_at_most_one(size: int, number: int) -> None:
    strategy = MinScheduled()
    healthy(strategy, *(f"e{each}" for each in range(size)))
    counts = Counter(scheduled(strategy, [f"o{each}" for each in range(number)]))
    assert max(counts.values()) - min(counts[f"e{each}"] for each in range(size)) <= 1


def test_objects_of_a_removed_executor_count_for_it_until_they_are_somewhere_else() -> None:
    strategy = MinScheduled()
    healthy(strategy, "a", "b")
    holding(strategy, {"a": 5, "b": 3})
    strategy.observe_executor("a", None)
    strategy.observe_executor("a", HEALTHY)
    assert strategy.choose_executor(NOTHING) == "b"


@settings(max_examples=60)
@given(st.floats(0.05, 1), st.integers(1, 6), st.integers(10, 120), st.integers(0, 40))
@pytest.mark.rule("sharding:B7")
def test_a_newcomer_gets_at_most_its_share_of_any_window(share: float, others: int, each_has: int, first: int) -> None:
    strategy = MinScheduled(share)
    old = [f"old-{number}" for number in range(others)]
    healthy(strategy, *old)
    holding(strategy, dict.fromkeys(old, each_has))
    scheduled(strategy, [f"before {number}" for number in range(first)])
    healthy(strategy, "new")
    went: list[str] = []
    while went.count("new") * 2 < (each_has - 1) and len(went) < 100:
        went += scheduled(strategy, [f"o{len(went)}"])
    for start in range(len(went)):
        for end in range(start + 1, len(went) + 1):
            count = went[start:end].count("new")
            assert count <= math.ceil(share * (end - start) - 1e-6)
            assert start > 0 or count <= math.floor(share * end + 1e-6)


def test_slow_start_is_off_by_default_and_ends_at_half_of_the_mean() -> None:
    for share, want in ((None, 20), (0.25, 5)):
        strategy = MinScheduled(share)
        healthy(strategy, "a", "b")
        holding(strategy, {"a": 30, "b": 30})
        healthy(strategy, "new")
        assert scheduled(strategy, [f"o{number}" for number in range(20)]).count("new") == want
    strategy = MinScheduled(0.25)
    healthy(strategy, "a", "b", "new")
    holding(strategy, {"a": 30, "b": 30, "new": 15})
    assert scheduled(strategy, [f"o{number}" for number in range(10)]).count("new") == 10


def test_where_only_newcomers_have_room_they_get_it() -> None:
    strategy = MinScheduled(0.1)
    capacities(strategy, {"a": 5, "new": 5})
    holding(strategy, {"a": 5})
    assert scheduled(strategy, ["o1", "o2"]) == ["new", "new"]


@pytest.mark.parametrize("share", [0, -1, 1.1, math.nan])
def test_what_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match=r"slow_start_max_share is .*, allowed: more than 0 and at most 1"):
        MinScheduled(share)


class Plain:
    """The same, without any bookkeeping: everything is counted anew for each choice."""

    def __init__(self) -> None:
        self.statuses: dict[str, ExecutorStatus] = {}
        self.declared: dict[str, float | None] = {}
        self.holders: dict[str, str] = {}
        self.chosen: dict[str, int] = {}
        self.turn = 0

    def choose(self) -> str | type[Unschedulable]:
        if not self.statuses:
            return NoExecutors
        limits = [limit for limit in self.declared.values() if limit is not None]
        candidates, healthy_ones = [], 0
        for executor, status in self.statuses.items():
            if status is not HEALTHY:
                continue
            healthy_ones += 1
            limit, has = self.declared[executor], list(self.holders.values()).count(executor)
            if limit is None or has < limit:
                load = has / (limit if limit is not None else max(limits, default=1))
                candidates.append((load, self.chosen.get(executor, -1), executor))
        if not candidates:
            return NoCapacity if healthy_ones else NoHealthyExecutors
        *_, executor = min(candidates)
        self.chosen[executor] = self.turn
        self.turn += 1
        return executor


EVENTS = st.one_of(
    st.tuples(st.sampled_from("abcd"), st.sampled_from([HEALTHY, HEALTHY, FULL]), st.sampled_from([None, 1, 2, 5])),
    st.tuples(st.sampled_from("abcd"), st.none()),
    st.tuples(st.integers(0, 9), st.sampled_from("abcd")),
    st.integers(0, 9),
    st.just("choose"),
)


@settings(max_examples=200)
@given(st.lists(EVENTS, max_size=40))
def test_it_agrees_with_its_plain_twin(events: list[Any]) -> None:
    strategy, plain = MinScheduled(), Plain()
    for event in events:
        match event:
            case str(executor), None:
                strategy.observe_executor(executor, None)
                for known in (plain.statuses, plain.declared, plain.chosen):
                    known.pop(executor, None)
            case str(executor), status, capacity:
                report_member(strategy, LiveExecutor(executor, "uid", status, capacity=capacity))
                plain.statuses[executor], plain.declared[executor] = status, capacity
            case int(uid), str(executor):
                strategy.observe_scheduled(ObjectFacts(f"o{uid}", executor=executor))
                plain.holders[f"o{uid}"] = executor
            case int(uid):
                strategy.observe_deleted(ObjectFacts(f"o{uid}"))
                plain.holders.pop(f"o{uid}", None)
            case _:
                check_choice(strategy, plain)
    check_choice(strategy, plain)


def check_choice(strategy: MinScheduled, plain: Plain) -> None:
    for _ in range(2):
        want = plain.choose()
        if isinstance(want, str):
            assert strategy.choose_executor(NOTHING) == want
        else:
            assert type(refusal(strategy)) is want


def test_it_explains_itself() -> None:
    strategy = MinScheduled()
    capacities(strategy, {"a": 2, "b": 4, "c": 1})
    strategy.observe_executor("d", FULL)
    holding(strategy, {"a": 1, "b": 1, "c": 1})
    found = [(each.executor, each.place, each.why) for each in strategy.candidate_ranks(NOTHING)]
    assert found == [
        ("b", 1, "1 open of 4"),
        ("a", 2, "1 open of 2"),
        ("c", None, "1 open of 1"),
        ("d", None, "Full"),
    ]
