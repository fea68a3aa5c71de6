"""Strategies by name, with their arguments from the configuration.

The caller finds other installed strategies as entry points of the group `GROUP`. Each entry point names a `Builder`,
and `installed_builders` adds it to the built-in ones. Strategies that use NumPy are imported on first use, because
nothing else here needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, Protocol, TypeVar

import msgspec

from situate.objects.settings.section import Mistake, format_value, parse_section, spelling_hint
from situate.sharding.strategies.min_metric_score.settings import MetricSettings
from situate.sharding.strategies.min_scheduled import MinScheduled
from situate.sharding.strategies.protocol import Strategy
from situate.sharding.strategies.random import Random, RandomSource
from situate.sharding.strategies.round_robin import RoundRobin

GROUP: Final = "situate.sharding.strategies"
"""Group of the entry points."""
DEFAULT: Final = "MinScheduled"


@dataclass(frozen=True, slots=True)
class StrategyEnvironment:
    """Resources of the process that a strategy may need."""

    clock: Callable[[], float]
    """Monotonic seconds, of the same clock as the members' `sampled_at`."""
    random: RandomSource
    group: str
    """API group of the resource."""
    kind: str


class BadArguments(ValueError):
    """The strategy cannot be built; `mistakes` has a path for each reason."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(map(str, mistakes)))


Arguments = Mapping[str, Any]
"""Plain data from a configuration file or from `--strategy-arg`."""
Builder = Callable[[Arguments, StrategyEnvironment], Strategy]
"""Builds a strategy. May raise `BadArguments`, with paths relative to the arguments."""
_T = TypeVar("_T")
_Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
_Number = Annotated[float, msgspec.Meta(ge=0)]
_Positive = Annotated[float, msgspec.Meta(gt=0)]


class _NoArguments(msgspec.Struct, frozen=True):
    pass


class _MinScheduled(msgspec.Struct, frozen=True):
    slow_start_max_share: _Share | None = None


class _MinMetricScore(msgspec.Struct, frozen=True):
    weights: dict[str, _Number] = msgspec.field(default_factory=lambda: {"cpu": 1.0})
    capacity: dict[str, dict[str, _Positive]] = msgspec.field(default_factory=dict)
    max_age_s: _Number = 60.0
    missing: Literal["exclude", "worst"] = "exclude"
    fallback: Literal["MinScheduled", "RoundRobin", "none"] = "MinScheduled"
    per_object_estimate: Literal["auto"] | dict[str, _Number] = "auto"
    slow_start_max_share: _Share | None = None


class _Ring(msgspec.Struct, frozen=True):
    separator: bool = False


def _min_metric_score(arguments: Arguments, surroundings: StrategyEnvironment) -> Strategy:
    from situate.sharding.strategies.min_metric_score.strategy import MinMetricScore

    read = _parse_arguments(arguments, _MinMetricScore)
    try:
        settings = MetricSettings(**{name: getattr(read, name) for name in read.__struct_fields__})
    except ValueError as error:
        raise BadArguments((Mistake("weights", format_value(read.weights), str(error)),)) from error
    return MinMetricScore(surroundings.clock, settings)


def _random(arguments: Arguments, surroundings: StrategyEnvironment) -> Strategy:
    _parse_arguments(arguments, _NoArguments)
    return Random(surroundings.random)


def _round_robin(arguments: Arguments, _: StrategyEnvironment) -> Strategy:
    _parse_arguments(arguments, _NoArguments)
    return RoundRobin()


def _ring(arguments: Arguments, surroundings: StrategyEnvironment) -> Strategy:
    from situate.sharding.strategies.hashed import Ring

    separator = _parse_arguments(arguments, _Ring).separator
    return Ring(surroundings.group, surroundings.kind, separator=separator)


def _rendezvous(arguments: Arguments, _: StrategyEnvironment) -> Strategy:
    from situate.sharding.strategies.hashed import RendezvousHash

    _parse_arguments(arguments, _NoArguments)
    return RendezvousHash()


BUILT_IN: Final[Mapping[str, Builder]] = {
    "MinScheduled": lambda arguments, _: MinScheduled(_parse_arguments(arguments, _MinScheduled).slow_start_max_share),
    "MinMetricScore": _min_metric_score,
    "Random": _random,
    "RoundRobin": _round_robin,
    "Ring": _ring,
    "Rendezvous": _rendezvous,
}


class EntryPoint(Protocol):
    """One of `importlib.metadata.entry_points(group=GROUP)`."""

    @property
    def name(self) -> str: ...
    def load(self) -> Any:
        """Return a `Builder`; may raise any exception."""


def installed_builders(points: Iterable[EntryPoint]) -> tuple[Mapping[str, Builder], tuple[Mistake, ...]]:
    """Return the built-in and the installed builders, and the mistakes of entry points that are left out."""
    found, mistakes = dict(BUILT_IN), []
    for point in points:
        path = f"entry point {point.name} of {GROUP}"
        if point.name in found:
            mistakes.append(Mistake(path, format_value(point.name), "a name that no other strategy has"))
            continue
        try:
            builder = point.load()
        except Exception as error:  # a foreign module may raise any exception, and must not stop the others
            mistakes.append(Mistake(path, f"{type(error).__name__}: {error}"[:200], "a module that can be imported"))
            continue
        if callable(builder):
            found[point.name] = builder
        else:
            mistakes.append(Mistake(path, format_value(builder), "a function of arguments and surroundings"))
    return found, tuple(mistakes)


def build_strategy(
    name: str, arguments: Arguments, surroundings: StrategyEnvironment, builders: Mapping[str, Builder] = BUILT_IN
) -> Strategy:
    """Build the strategy of that name. Raises `BadArguments` with every mistake; paths begin with `strategyArgs`.

    `builders`: see `installed_builders`. Other errors of a user's builder are passed on.
    """
    builder = builders.get(name)
    if builder is None:
        allowed = "one of " + ", ".join(builders)
        raise BadArguments((Mistake("strategy", format_value(name), allowed, spelling_hint(name, builders)),))
    try:
        return builder(arguments, surroundings)
    except BadArguments as error:
        raise BadArguments(tuple(replace(each, path=f"strategyArgs.{each.path}") for each in error.mistakes)) from error


def _parse_arguments(arguments: Arguments, kind: type[_T]) -> _T:
    read, mistakes = parse_section(arguments, kind)
    if read is None:
        raise BadArguments(mistakes)
    return read
