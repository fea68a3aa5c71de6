"""What holds of every strategy that comes with us: who is chosen, what observations do, what a listing rebuilds."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.sharding.model.errors import NoExecutors, NoHealthyExecutors, Unschedulable
from situate.sharding.model.executors import ExecutorStatus, LiveExecutor
from situate.sharding.strategies import (
    ExplainableStrategy,
    MinMetricScore,
    MinScheduled,
    ObjectFacts,
    Placer,
    Random,
    RendezvousHash,
    Ring,
    RoundRobin,
    SelectiveStrategy,
    Strategy,
    rebuild,
)
from tests.sharding.strategies.telling import FULL, HEALTHY, NOTHING, UNHEALTHY, healthy, holding, refusal

STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "Random": lambda: Random(random.Random(1)),
    "RoundRobin": RoundRobin,
    "MinScheduled": MinScheduled,
    "MinScheduled with slow start": lambda: MinScheduled(0.25),
    "MinMetricScore": lambda: MinMetricScore(lambda: 0.0),
    "Ring": lambda: Ring("example.com", "Job"),
    "Rendezvous": RendezvousHash,
}
every = pytest.mark.parametrize("make", STRATEGIES.values(), ids=STRATEGIES)
STATUSES = st.sampled_from([*ExecutorStatus, None])
HISTORY = st.lists(st.tuples(st.sampled_from("abcd"), STATUSES), max_size=20)


@every
@pytest.mark.rule("sharding:K13", "sharding:S4")
@given(history=HISTORY)
def test_only_healthy_ones_are_chosen_whatever_happened(
    make: Callable[[], Strategy], history: list[tuple[str, ExecutorStatus | None]]
) -> None:
    strategy, statuses = make(), dict[str, ExecutorStatus]()
    for executor, status in history:
        strategy.observe_executor(executor, status)
        statuses.pop(executor, None)
        if status is not None:
            statuses[executor] = status
        well = {each for each, known in statuses.items() if known is HEALTHY}
        refused = refusal(strategy)
        if well:
            assert strategy.choose_executor(NOTHING) in well
        else:
            assert isinstance(refused, NoHealthyExecutors if statuses else NoExecutors)


@every
@given(history=HISTORY)
def test_explanations_agree_with_choices_and_change_nothing(
    make: Callable[[], Strategy], history: list[tuple[str, ExecutorStatus | None]]
) -> None:
    strategy = make()
    assert isinstance(strategy, ExplainableStrategy)
    known: set[str] = set()
    for executor, status in history:
        strategy.observe_executor(executor, status)
        known = known | {executor} if status is not None else known - {executor}
        first, second = strategy.candidate_ranks(NOTHING), strategy.candidate_ranks(NOTHING)
        assert first == second
        assert {each.executor for each in first} == known
        best = {each.executor for each in first if each.place == 1}
        assert (strategy.choose_executor(NOTHING) in best) if best else isinstance(refusal(strategy), Unschedulable)


@every
@given(history=HISTORY, allowed=st.sets(st.sampled_from("abcd")))
def test_a_choice_among_some_names_one_of_them(
    make: Callable[[], Strategy], history: list[tuple[str, ExecutorStatus | None]], allowed: set[str]
) -> None:
    strategy, statuses = make(), dict[str, ExecutorStatus | None]()
    assert isinstance(strategy, SelectiveStrategy)
    for executor, status in history:
        strategy.observe_executor(executor, status)
        statuses[executor] = status
    eligible = {each for each in allowed if statuses.get(each) is HEALTHY}
    if eligible:
        assert all(strategy.choose_among(NOTHING, allowed) in eligible for _ in range(5))
        assert strategy.choose_among(NOTHING, allowed, lambda _, tied: tied[-1]) in eligible
    else:
        with pytest.raises(Unschedulable):
            strategy.choose_among(NOTHING, allowed)


@pytest.mark.parametrize("make", [MinScheduled, lambda: MinMetricScore(lambda: 0.0)])
def test_a_choice_changes_no_counts(make: Callable[[], Strategy]) -> None:
    strategy = make()
    healthy(strategy, "a", "b")
    holding(strategy, {"a": 1})
    assert {strategy.choose_executor(NOTHING) for _ in range(10)} == {"b"}


OBJECTS = st.sampled_from(["o1", "o2", "o3", "o4"])
EVENTS = st.lists(st.tuples(st.sampled_from(["scheduled", "completed", "deleted"]), OBJECTS, st.sampled_from("ab")))


@settings(max_examples=60)
@given(EVENTS, st.integers(1, 3))
@pytest.mark.rule("sharding:X1", "sharding:X8")
def test_observations_may_be_repeated_and_a_listing_rebuilds_everything(
    events: list[tuple[str, str, str]], repeats: int
) -> None:
    """Counts are those of a plain table of open objects, and of a strategy that is told what is listed."""
    strategy, holders, completed = MinScheduled(), dict[str, str](), set[str]()
    healthy(strategy, "a", "b")
    for event, uid, executor in events:
        for _ in range(repeats):
            obj = ObjectFacts(uid, executor=executor)
            {
                "scheduled": strategy.observe_scheduled,
                "completed": strategy.observe_completed,
                "deleted": strategy.observe_deleted,
            }[event](obj)
        if event == "scheduled" and uid not in completed:
            holders[uid] = executor
        elif event != "scheduled":
            holders.pop(uid, None)
            (completed.add if event == "completed" else completed.discard)(uid)
    counts = {each: list(holders.values()).count(each) for each in "ab"}
    listed = [ObjectFacts(uid, executor=holder) for uid, holder in holders.items()]
    listed += [ObjectFacts(uid, executor="a", completed=True) for uid in completed]
    anew = MinScheduled()
    rebuild(anew, listed, [LiveExecutor("a", "1"), LiveExecutor("b", "2")])
    for each in (strategy, anew):
        assert {s.executor: s.why for s in each.candidate_ranks(NOTHING)} == {
            executor: f"{count} open" for executor, count in counts.items()
        }


def test_an_object_that_nobody_has_any_more_frees_its_place() -> None:
    strategy = MinScheduled()
    healthy(strategy, "a", "b")
    strategy.observe_scheduled(ObjectFacts("o", executor="a"))
    assert strategy.choose_executor(NOTHING) == "b"
    strategy.observe_scheduled(ObjectFacts("o"))
    strategy.observe_scheduled(ObjectFacts("p", executor="b"))
    assert strategy.choose_executor(NOTHING) == "a"


def test_a_refusal_counts_its_reasons() -> None:
    strategy = MinScheduled()
    for executor, status in (("a", FULL), ("b", UNHEALTHY), ("c", UNHEALTHY)):
        strategy.observe_executor(executor, status)
    assert str(refusal(strategy)) == "NoHealthyExecutors: 0 of 3 executors may be chosen: 1 Full, 2 Unhealthy"


@every
def test_a_placer_without_rules_chooses_as_its_strategy(make: Callable[[], Strategy]) -> None:
    plain, placer = make(), Placer(make())
    for strategy in (plain, placer):
        healthy(strategy, "a", "b", "c")
        holding(strategy, {"a": 2, "c": 1})
    assert [plain.choose_executor(NOTHING) for _ in range(9)] == [placer.choose_executor(NOTHING) for _ in range(9)]
