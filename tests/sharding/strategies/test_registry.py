"""Strategies by name and arguments: what is wrong is named with its path."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from situate.sharding.model.errors import NoExecutors
from situate.sharding.strategies import (
    BUILT_IN,
    BadArguments,
    MinMetricScore,
    MinScheduled,
    RoundRobin,
    Strategy,
    StrategyEnvironment,
    build_strategy,
    installed_builders,
)
from tests.sharding.strategies.telling import NOTHING

PLACE = StrategyEnvironment(lambda: 0.0, random.Random(1), "example.com", "Job")


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.rule("sharding:K13")
def test_every_strategy_needs_no_arguments(name: str) -> None:
    with pytest.raises(NoExecutors):
        build_strategy(name, {}, PLACE).choose_executor(NOTHING)
    with pytest.raises(BadArguments, match=r"strategyArgs\.colour"):
        build_strategy(name, {"colour": 1}, PLACE)


def test_arguments_reach_the_strategy() -> None:
    assert isinstance(build_strategy("MinScheduled", {"slow_start_max_share": 0.25}, PLACE), MinScheduled)
    arguments = {
        "weights": {"cpu": 1, "memory": 0.5},
        "capacity": {"executor-0": {"cpu": 4}},
        "max_age_s": 30,
        "missing": "worst",
        "fallback": "RoundRobin",
        "per_object_estimate": {"cpu": 0.01},
        "slow_start_max_share": 0.2,
    }
    assert isinstance(build_strategy("MinMetricScore", arguments, PLACE), MinMetricScore)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("MinSchedule", {}, "strategy: found .*did you mean MinScheduled"),
        ("MinScheduled", {"slow_start_max_share": 2}, r"strategyArgs\.slow_start_max_share: found 2"),
        ("MinScheduled", {"slow_start_max_share": "a"}, r"strategyArgs\.slow_start_max_share"),
        ("MinMetricScore", {"weights": {}}, r"strategyArgs\.weights: found \{\}.*allowed"),
        ("MinMetricScore", {"weights": {"cpu": -1}}, r"strategyArgs\.weights\.cpu"),
        ("MinMetricScore", {"capacity": {"a": {"cpu": 0}}}, r"strategyArgs\.capacity\.a\.cpu"),
        (
            "MinMetricScore",
            {"missing": "no", "max_age_s": -1},
            r"strategyArgs\.max_age_s.*strategyArgs\.missing|missing",
        ),
        ("MinMetricScore", {"per_object_estimate": "many"}, r"strategyArgs\.per_object_estimate"),
    ],
)
def test_mistakes_are_named(name: str, arguments: Mapping[str, Any], message: str) -> None:
    with pytest.raises(BadArguments, match=message):
        build_strategy(name, arguments, PLACE)


@dataclass(frozen=True)
class Point:
    name: str
    load: Callable[[], Any]


def broken() -> Any:
    raise ImportError("no module named theirs")


@pytest.mark.rule("sharding:K13")
def test_entry_points_add_builders_and_a_bad_one_is_named_and_left_out() -> None:
    points = [
        Point("theirs", broken),
        Point("nothing", lambda: 3),
        Point("Random", lambda: lambda *_: RoundRobin()),
        Point("mine", lambda: lambda *_: RoundRobin()),
    ]
    builders, mistakes = installed_builders(points)
    assert builders.keys() - BUILT_IN.keys() == {"mine"}
    assert builders["Random"] is BUILT_IN["Random"]
    assert isinstance(build_strategy("mine", {}, PLACE, builders), RoundRobin)
    assert [str(each).split(":")[0] for each in mistakes] == [
        f"entry point {name} of situate.sharding.strategies" for name in ("theirs", "nothing", "Random")
    ]
    assert "no module named theirs" in str(mistakes[0])


def test_a_builder_gets_arguments_and_surroundings() -> None:
    def mine(arguments: Mapping[str, Any], surroundings: StrategyEnvironment) -> Strategy:
        assert arguments == {"speed": 3}
        assert surroundings.kind == "Job"
        return RoundRobin()

    assert isinstance(build_strategy("mine", {"speed": 3}, PLACE, {**BUILT_IN, "mine": mine}), RoundRobin)
