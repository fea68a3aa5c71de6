"""MinMetricScore: the arithmetic of scores, which samples count, and no herd between two samples."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.sharding.model.errors import NoCapacity, NoMetrics
from situate.sharding.model.executors import LiveExecutor
from situate.sharding.strategies import (
    MetricSettings,
    MinMetricScore,
    ObjectFacts,
    Sample,
    rebuild,
    report_member,
)
from tests.sharding.herd import Clock, peak_to_mean
from tests.sharding.strategies.telling import NOTHING, UNHEALTHY, chosen, healthy, holding, refusal, scheduled


def strategy_of(clock: Clock, samples: Mapping[str, Mapping[str, Any] | None], **fields: Any) -> MinMetricScore:
    """Healthy executors with these samples of now; None: without any."""
    strategy = MinMetricScore(clock, MetricSettings(**fields))
    healthy(strategy, *samples)
    for executor, values in samples.items():
        if values is not None:
            strategy.observe_sample(executor, Sample(values, clock.now))
    return strategy


@pytest.mark.parametrize(
    ("samples", "fields", "want"),
    [
        pytest.param({"a": {"cpu": 0.9}, "b": {"cpu": 0.2}, "c": {"cpu": 0.5}}, {}, "b", id="the lowest"),
        pytest.param(
            {"a": {"cpu": 1, "memory": 4}, "b": {"cpu": 3, "memory": 1}},
            {"weights": {"cpu": 1, "memory": 0.5}},
            "a",
            id="weighted",
        ),
        pytest.param(
            {"a": {"cpu": 2.0}, "b": {"cpu": 3.0}},
            {"capacity": {"a": {"cpu": 4}, "b": {"cpu": 8}}},
            "b",
            id="by capacity",
        ),
        pytest.param({"a": {"cpu": 0.8}, "b": None}, {}, "a", id="nobody without a sample"),
        pytest.param({"a": {"cpu": 0.5}, "b": {"cpu": 0.5 + 5e-10}}, {}, "a", id="a tie: the smallest id"),
        pytest.param({"a": {"cpu": 0.5 + 2e-9}, "b": {"cpu": 0.5}}, {}, "b", id="no tie"),
        pytest.param({"a": {"cpu": True}, "b": {"cpu": 9}}, {}, "b", id="a boolean is no number"),
        pytest.param({"a": {"cpu": "0.1"}, "b": {"cpu": 9}}, {}, "b", id="nor is text"),
        pytest.param({"a": {"cpu": math.nan}, "b": {"cpu": 9}}, {}, "b", id="nor NaN"),
        pytest.param({"a": {"cpu": math.inf}, "b": {"cpu": 9}}, {}, "b", id="nor infinity"),
        pytest.param({"a": {"cpu": -1}, "b": {"cpu": 9}}, {}, "b", id="nor what is negative"),
        pytest.param({"a": {"cpu": None}, "b": {"cpu": 9}}, {}, "b", id="nor nothing"),
        pytest.param({"a": {"cpu": 10**400}, "b": {"cpu": 9}}, {}, "b", id="nor what is too large"),
        pytest.param(
            {"a": {"cpu": 0.1}, "b": {"cpu": 0.5, "memory": 1}},
            {"weights": {"cpu": 1, "memory": 1}},
            "b",
            id="a partial sample is none",
        ),
        pytest.param(
            {"a": {"cpu": 0.7, "disk": "?"}, "b": {"cpu": 0.8}}, {}, "a", id="what has no weight is no matter"
        ),
        pytest.param({"a": {"cpu": 0.9}, "b": None}, {"missing": "worst"}, "a", id="as the worst: the smallest id"),
        pytest.param(
            {"a": {"cpu": 0.9}, "b": {"cpu": 0.1}, "c": None}, {"missing": "worst"}, "b", id="as the worst, not best"
        ),
    ],
)
@pytest.mark.rule("sharding:K7", "sharding:X1")
def test_who_is_chosen(samples: Mapping[str, Mapping[str, Any] | None], fields: dict[str, Any], want: str) -> None:
    assert strategy_of(Clock(), samples, **fields).choose_executor(NOTHING) == want


def test_a_sample_is_usable_up_to_its_age_and_no_longer() -> None:
    clock = Clock()
    strategy = strategy_of(clock, {"a": {"cpu": 0.1}, "b": {"cpu": 0.6}}, max_age_s=60)
    clock.now += 30
    strategy.observe_sample("b", Sample({"cpu": 0.6}, clock.now))
    clock.now += 30
    assert strategy.choose_executor(NOTHING) == "a"
    clock.now += 0.001
    assert strategy.choose_executor(NOTHING) == "b"


def test_a_sample_that_cannot_be_used_replaces_one_that_could() -> None:
    strategy = strategy_of(Clock(), {"a": {"cpu": 0.1}, "b": {"cpu": 0.6}})
    strategy.observe_sample("a", Sample({"cpu": math.nan}, 1000))
    assert strategy.choose_executor(NOTHING) == "b"


def test_what_was_assigned_since_the_sample_counts_and_what_it_includes_does_not() -> None:
    clock = Clock()
    strategy = strategy_of(clock, {"a": {"cpu": 0.1}, "b": {"cpu": 0.35}}, per_object_estimate={"cpu": 0.1})
    assert scheduled(strategy, ["o1", "o2", "o3", "o4"]) == ["a", "a", "a", "b"]
    strategy.observe_completed(ObjectFacts("o1"))
    assert scheduled(strategy, ["o5"]) == ["a"]
    clock.now += 15
    strategy.observe_sample("a", Sample({"cpu": 0.1}, clock.now))
    assert scheduled(strategy, ["o6", "o7", "o8", "o9"]) == ["a", "a", "a", "a"]  # 0.1 to 0.4; b is at 0.45


def test_an_estimate_that_is_not_given_is_what_open_work_costs_on_the_whole() -> None:
    clock = Clock()
    strategy = MinMetricScore(clock, MetricSettings())
    healthy(strategy, "a", "b")
    holding(strategy, {"a": 6, "b": 4})
    clock.now += 1
    for executor, cpu in (("a", 0.6), ("b", 0.4)):
        strategy.observe_sample(executor, Sample({"cpu": cpu}, clock.now))
    # 1.0 / 10 objects; then 1.0 / 11, / 12: b is at 0.4, 0.49, 0.57, and a at 0.6
    assert scheduled(strategy, ["o1", "o2", "o3"]) == ["b", "b", "b"]
    assert [each.why for each in strategy.candidate_ranks(NOTHING)] == ["score 0.6", "score 0.630769"]


def test_without_open_work_nothing_is_known_of_its_cost() -> None:
    strategy = strategy_of(Clock(), {"a": {"cpu": 0.3}, "b": {"cpu": 0.1}})
    assert chosen(strategy, 3) == "b b b"


@pytest.mark.parametrize(
    ("fallback", "want"), [("MinScheduled", "b b b"), ("RoundRobin", "a b c")], ids=["MinScheduled", "RoundRobin"]
)
def test_while_nobody_has_a_usable_sample_another_strategy_chooses(
    fallback: Literal["MinScheduled", "RoundRobin"], want: str
) -> None:
    strategy = strategy_of(Clock(), {"a": None, "b": {"cpu": -1}, "c": None}, fallback=fallback)
    holding(strategy, {"a": 2, "c": 1})
    assert chosen(strategy, 3) == want
    assert all("no executor has a usable sample" in each.why for each in strategy.candidate_ranks(NOTHING))


def test_without_a_fallback_it_says_so() -> None:
    strategy = strategy_of(Clock(), {"a": None, "b": None}, fallback="none")
    strategy.observe_executor("c", UNHEALTHY)
    refused = refusal(strategy)
    assert isinstance(refused, NoMetrics)
    assert str(refused).endswith("0 of 3 executors may be chosen: 1 Unhealthy, 2 without a usable sample")
    assert [each.place for each in strategy.candidate_ranks(NOTHING)] == [None, None, None]


def test_capacity_for_objects_counts_here_too() -> None:
    clock = Clock()
    strategy = MinMetricScore(clock)
    for executor, cpu in (("a", 0.1), ("b", 0.9)):
        member = LiveExecutor(executor, "uid", capacity=1, metrics={"cpu": cpu}, sampled_at=clock.now)
        report_member(strategy, member)
    assert scheduled(strategy, ["o1", "o2"]) == ["a", "b"]
    assert isinstance(refusal(strategy), NoCapacity)
    assert [each.why for each in strategy.candidate_ranks(NOTHING)] == ["1 open, at capacity"] * 2


def test_a_listing_rebuilds_it_and_samples_include_what_is_listed() -> None:
    clock = Clock()
    strategy = MinMetricScore(clock, MetricSettings(per_object_estimate={"cpu": 1.0}))
    members = [
        LiveExecutor("a", "1", metrics={"cpu": 0.5}, sampled_at=clock.now),
        LiveExecutor("b", "2", metrics={"cpu": 0.9}, sampled_at=clock.now),
    ]
    rebuild(strategy, [ObjectFacts(f"o{number}", executor="a") for number in range(9)], members)
    assert strategy.choose_executor(NOTHING) == "a"


def test_rows_of_the_removed_are_used_again_without_what_was_in_them() -> None:
    strategy = strategy_of(Clock(), {f"e{number}": {"cpu": 0.0} for number in range(20)})
    for number in range(20):
        strategy.observe_executor(f"e{number}", None)
    healthy(strategy, *(f"f{number}" for number in range(40)))
    strategy.observe_sample("f7", Sample({"cpu": 5}, 1000))
    assert strategy.choose_executor(NOTHING) == "f7"


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from("abcdef"), st.tuples(st.floats(0, 5), st.floats(0, 5), st.integers(0, 90)), min_size=1
    ),
    st.integers(0, 12),
    st.sampled_from(["exclude", "worst"]),
)
def test_the_arrays_agree_with_the_formula_written_out(
    samples: dict[str, tuple[float, float, int]], objects: int, missing: Literal["exclude", "worst"]
) -> None:
    weights, estimate = {"cpu": 2.0, "memory": 0.5}, {"cpu": 0.3, "memory": 0.1}
    clock = Clock()
    strategy = MinMetricScore(clock, MetricSettings(weights, per_object_estimate=estimate, missing=missing))
    healthy(strategy, *samples)
    for executor, (cpu, memory, age) in samples.items():
        strategy.observe_sample(executor, Sample({"cpu": cpu, "memory": memory}, clock.now - age))
    usable = {executor for executor, (_, _, age) in samples.items() if age <= 60}
    since: Counter[str] = Counter()
    for number in range(objects if usable else 0):
        scores = {
            executor: 2 * (samples[executor][0] + since[executor] * 0.3)
            + 0.5 * (samples[executor][1] + since[executor] * 0.1)
            for executor in usable
        }
        if missing == "worst":
            scores |= dict.fromkeys(samples.keys() - usable, max(scores.values()))
        (executor,) = scheduled(strategy, [f"o{number}"])
        assert scores[executor] <= min(scores.values()) + 2e-9
        since[executor] += 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weights": {}}, "weights is empty"),
        ({"weights": {"cpu": 0}}, "weights is empty or all 0"),
        ({"weights": {"cpu": -1}}, "weights.cpu is -1"),
        ({"capacity": {"a": {"cpu": 0}}}, "capacity.a.cpu is 0, allowed: a number above 0"),
        ({"per_object_estimate": {"cpu": math.nan}}, "per_object_estimate.cpu is nan"),
        ({"max_age_s": -1}, "max_age_s is -1"),
        ({"missing": "ignore"}, "missing is 'ignore', allowed: exclude, worst"),
        ({"fallback": "Random"}, "fallback is 'Random', allowed: MinScheduled, RoundRobin, none"),
    ],
)
def test_settings_that_cannot_be_used_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MetricSettings(**fields)


@pytest.mark.rule("sharding:B7")
def test_a_newcomer_with_an_idle_sample_gets_at_most_its_share() -> None:
    clock = Clock()
    strategy = MinMetricScore(clock, MetricSettings(slow_start_max_share=0.2, per_object_estimate={}))
    healthy(strategy, "a", "b", "new")
    holding(strategy, {"a": 30, "b": 30})
    clock.now += 1
    for executor, cpu in (("a", 0.8), ("b", 0.8), ("new", 0.0)):
        strategy.observe_sample(executor, Sample({"cpu": cpu}, clock.now))
    assert Counter(scheduled(strategy, [f"o{number}" for number in range(20)])) == {"a": 8, "b": 8, "new": 4}


@pytest.mark.rule("sharding:B7")
def test_there_is_no_herd_between_two_samples_and_the_raw_minimum_makes_one() -> None:
    for stagger in (0, 15):
        assert peak_to_mean("auto", stagger) <= 1.5
    assert peak_to_mean({}, 0) > 4  # section 14 says 5.6
