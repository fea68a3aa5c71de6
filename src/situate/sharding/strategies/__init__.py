"""Strategies of a supervisor to choose an executor: KSched's four algorithms, hashing, and rules around any of them.

A strategy observes executors and objects, and returns a choice. It does no I/O; clock and randomness are arguments.

    strategy = Placer(MinScheduled())
    strategy.observe_executor("executor-0", ExecutorStatus.HEALTHY)
    strategy.choose_executor(ObjectFacts("a UID"))   # "executor-0"

Strategies that need NumPy are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from situate.sharding.strategies.facts import ObjectFacts, facts_of, oddities_of, priority_oddity
from situate.sharding.strategies.min_metric_score.settings import MetricSettings
from situate.sharding.strategies.min_scheduled import MinScheduled
from situate.sharding.strategies.placer import Explanation, Placer
from situate.sharding.strategies.protocol import (
    CandidateRank,
    ExplainableStrategy,
    Ineligible,
    MemberObserver,
    SelectiveStrategy,
    Strategy,
    StrategyFailed,
    TieBreak,
    rebuild,
    report_member,
    report_object,
)
from situate.sharding.strategies.random import Random, RandomSource
from situate.sharding.strategies.registry import (
    BUILT_IN,
    GROUP,
    BadArguments,
    Builder,
    StrategyEnvironment,
    build_strategy,
    installed_builders,
)
from situate.sharding.strategies.round_robin import RoundRobin
from situate.sharding.strategies.rules import Filter, Rules, Score

if TYPE_CHECKING:
    from situate.sharding.strategies.hashed import RendezvousHash, Ring
    from situate.sharding.strategies.min_metric_score.samples import Sample
    from situate.sharding.strategies.min_metric_score.strategy import MinMetricScore

__all__ = [
    "BUILT_IN",
    "GROUP",
    "BadArguments",
    "Builder",
    "CandidateRank",
    "ExplainableStrategy",
    "Explanation",
    "Filter",
    "Ineligible",
    "MemberObserver",
    "MetricSettings",
    "MinMetricScore",
    "MinScheduled",
    "ObjectFacts",
    "Placer",
    "Random",
    "RandomSource",
    "RendezvousHash",
    "Ring",
    "RoundRobin",
    "Rules",
    "Sample",
    "Score",
    "SelectiveStrategy",
    "Strategy",
    "StrategyEnvironment",
    "StrategyFailed",
    "TieBreak",
    "build_strategy",
    "facts_of",
    "installed_builders",
    "oddities_of",
    "priority_oddity",
    "rebuild",
    "report_member",
    "report_object",
]


_LOADED: Final = {
    "MinMetricScore": "situate.sharding.strategies.min_metric_score.strategy",
    "RendezvousHash": "situate.sharding.strategies.hashed",
    "Ring": "situate.sharding.strategies.hashed",
    "Sample": "situate.sharding.strategies.min_metric_score.samples",
}


def __getattr__(name: str) -> Any:
    """Import names that need NumPy on first use (PEP 562)."""
    if name not in _LOADED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LOADED[name]), name)
