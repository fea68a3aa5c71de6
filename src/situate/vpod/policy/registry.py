"""Plugins by name, and compiled policies.

A `Policy` is the configured text. `compile_policy` looks up its plugins once, so that a decision parses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from situate.vpod.policy.arguments import INT32, INT64, InvalidArguments, integer_argument
from situate.vpod.policy.filters import (
    EvenPodSpread,
    Filter,
    NoMaxResourceCount,
    PodFitsResources,
    RefusesAll,
)
from situate.vpod.policy.scores import Direction, DomainSpreadScore, NoScore, OrdinalScore, PodSpreadScore, Score

MIN_WEIGHT = 0
MAX_WEIGHT = 10

EVEN_POD_SPREAD = "EvenPodSpread"
AVAILABILITY_NODE = "AvailabilityNodePriority"
AVAILABILITY_ZONE = "AvailabilityZonePriority"


@dataclass(frozen=True, slots=True)
class Predicate:
    name: str
    args: str | None = None  # JSON text; None: the field is absent


@dataclass(frozen=True, slots=True)
class Priority:
    name: str
    weight: int
    args: str | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Predicates and priorities in the order of the configuration."""

    predicates: tuple[Predicate, ...] = ()
    priorities: tuple[Priority, ...] = ()

    def has_predicate(self, name: str) -> bool:
        return any(predicate.name == name for predicate in self.predicates)

    def has_priority(self, name: str) -> bool:
        return any(priority.name == name for priority in self.priorities)


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """The plugins of a policy, without unknown names."""

    filters: tuple[Filter, ...]
    scores: tuple[tuple[int, Score], ...]  # (weight, plugin)


def _with_skew(score: Score) -> Callable[[str | None], Score]:
    def make(args: str | None) -> Score:
        integer_argument(args, "MaxSkew", INT32)
        return score

    return make


def _without_arguments(score: Score) -> Callable[[str | None], Score]:
    return lambda _args: score


FILTERS: Mapping[str, Callable[[str | None], Filter]] = {
    "PodFitsResources": lambda _args: PodFitsResources(),
    "NoMaxResourceCount": lambda args: NoMaxResourceCount(integer_argument(args, "NumPartitions", INT64)),
    EVEN_POD_SPREAD: lambda args: EvenPodSpread(integer_argument(args, "MaxSkew", INT32)),
}

SCORES: Mapping[str, Callable[[str | None], Score]] = {
    EVEN_POD_SPREAD: _with_skew(PodSpreadScore(Direction.PLACE)),
    AVAILABILITY_NODE: _with_skew(DomainSpreadScore("node", Direction.PLACE)),
    AVAILABILITY_ZONE: _with_skew(DomainSpreadScore("zone", Direction.PLACE)),
    "LowestOrdinalPriority": _without_arguments(OrdinalScore(Direction.PLACE)),
    "RemoveWithEvenPodSpreadPriority": _with_skew(PodSpreadScore(Direction.REMOVE)),
    "RemoveWithAvailabilityNodePriority": _with_skew(DomainSpreadScore("node", Direction.REMOVE)),
    "RemoveWithAvailabilityZonePriority": _with_skew(DomainSpreadScore("zone", Direction.REMOVE)),
    "RemoveWithHighestOrdinalPriority": _without_arguments(OrdinalScore(Direction.REMOVE)),
}


def filter_plugin(predicate: Predicate) -> Filter:
    """Return the plugin of this name in `FILTERS`; `RefusesAll` if its arguments are invalid."""
    try:
        return FILTERS[predicate.name](predicate.args)
    except InvalidArguments:
        return RefusesAll()


def score_plugin(priority: Priority) -> Score:
    """Return the plugin of this name in `SCORES`; `NoScore` if its arguments are invalid."""
    try:
        return SCORES[priority.name](priority.args)
    except InvalidArguments:
        return NoScore()


def compile_policy(policy: Policy) -> CompiledPolicy:
    """Return the plugins to run. As upstream keys scores by name, the last of several equal priorities counts."""
    priorities = {priority.name: priority for priority in policy.priorities if priority.name in SCORES}
    return CompiledPolicy(
        tuple(filter_plugin(predicate) for predicate in policy.predicates if predicate.name in FILTERS),
        tuple((priority.weight, score_plugin(priority)) for priority in priorities.values()),
    )


DEFAULT_PLACING = Policy(
    predicates=(Predicate("PodFitsResources"), Predicate("NoMaxResourceCount", '{"NumPartitions": 100}')),
    priorities=(
        Priority(AVAILABILITY_ZONE, 10, '{"MaxSkew": 2}'),
        Priority("LowestOrdinalPriority", 2),
        Priority(EVEN_POD_SPREAD, 2, '{"MaxSkew": 2}'),
    ),
)

DEFAULT_REMOVING = Policy(
    priorities=(
        Priority("RemoveWithEvenPodSpreadPriority", 10, '{"MaxSkew": 2}'),
        Priority("RemoveWithAvailabilityZonePriority", 10, '{"MaxSkew": 2}'),
        Priority("RemoveWithHighestOrdinalPriority", 2),
    ),
)
