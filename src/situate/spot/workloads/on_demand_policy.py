"""How many pods of a workload must be on demand: what a policy says, and what it comes to (rules P10, P11, S27 to S30).

A policy is a value; `target` makes a number of it. Which of several annotations holds is decided in `on_demand_target`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from situate.objects.settings.section import did_you_mean, shown

_NUMBER: Final = re.compile(r"[0-9]{1,100}", re.ASCII)
_PERCENT: Final = re.compile(r"([0-9]{1,100})%", re.ASCII)
_RATIO: Final = re.compile(r"base=([0-9]{1,9}),weight=([0-9]{1,9}):([0-9]{1,9})", re.ASCII)
_SHARE: Final = re.compile(r"min-on-demand=([0-9]{1,100}),spot-percentage=([0-9]{1,3})", re.ASCII)
_MOST_PODS: Final = 2**31 - 1
"""No workload has more: `spec.replicas` is an int32."""
ALLOWED: Final = (
    "a number of pods such as 3, a percentage from 0% to 100%, base=2,weight=1:3 (on demand : spot), "
    "all-on-demand, all-spot, majority or default"
)


class BadPolicy(ValueError):
    """The text is no policy; the message says what was found and what is allowed."""

    def __init__(self, text: object, why: str = "") -> None:
        hint = f"; {why}" if why else ""
        super().__init__(f"found {shown(text)}, allowed: {ALLOWED}{hint}")


@dataclass(frozen=True, slots=True)
class Default:
    """Nothing for a Deployment; one, or more than half, for a StatefulSet."""

    def __str__(self) -> str:
        return "default"


@dataclass(frozen=True, slots=True)
class Count:
    pods: int

    def __str__(self) -> str:
        return str(self.pods)


@dataclass(frozen=True, slots=True)
class Percent:
    """Of spec.replicas, rounded up."""

    percent: int

    def __str__(self) -> str:
        return f"{self.percent}%"


@dataclass(frozen=True, slots=True)
class Ratio:
    """So many first, and of the rest a share, rounded up."""

    base: int
    on_demand: int
    spot: int

    def __str__(self) -> str:
        return f"base={self.base},weight={self.on_demand}:{self.spot}"


@dataclass(frozen=True, slots=True)
class AllOnDemand:
    def __str__(self) -> str:
        return "all-on-demand"


@dataclass(frozen=True, slots=True)
class AllSpot:
    def __str__(self) -> str:
        return "all-spot"


@dataclass(frozen=True, slots=True)
class Majority:
    """Strictly more than half."""

    def __str__(self) -> str:
        return "majority"


@dataclass(frozen=True, slots=True)
class LeastAndShare:
    """spotalis' pair: at least so many, and all that the spot percentage, rounded down, leaves over."""

    least: int
    spot_percent: int

    def __str__(self) -> str:
        return f"min-on-demand={self.least},spot-percentage={self.spot_percent}"


Policy: TypeAlias = Default | Count | Percent | Ratio | AllOnDemand | AllSpot | Majority | LeastAndShare

STRATEGIES: Final[dict[str, Policy]] = {
    "default": Default(),
    "all-on-demand": AllOnDemand(),
    "all-spot": AllSpot(),
    "majority": Majority(),
    "all-in-on-demand": AllOnDemand(),
    "all-in-spot": AllSpot(),
    "majority-in-on-demand": Majority(),
}
"""By name; the last three are the names of the founding note's author."""


_LEAST_TO_100: Final = "0{0,99}[0-9]|0{0,98}[0-9]{2}|0{0,97}100"
"""Numbers from 0 to 100 in at most as many digits as `_PERCENT` takes."""
WRITTEN: Final = "|".join(
    (*sorted(STRATEGIES), _NUMBER.pattern, f"({_LEAST_TO_100})%", _RATIO.pattern.replace("(", "").replace(")", ""))
)
"""The same grammar as a regular expression of RE2, for CEL: texts that it matches whole, but for `WEIGHTLESS` ones."""
WEIGHTLESS: Final = "base=[0-9]+,weight=0+:0+"
LONGEST: Final = 101
"""Characters of a policy."""


def parse_policy(text: str) -> Policy:
    """The policy that an annotation means; `BadPolicy` for anything else, never a guess."""
    if text in STRATEGIES:
        return STRATEGIES[text]
    if _NUMBER.fullmatch(text):
        return Count(int(text))
    if match := _PERCENT.fullmatch(text):
        return Percent(parse_percent(text, match[1]))
    if match := _RATIO.fullmatch(text):
        base, on_demand, spot = map(int, match.groups())
        if on_demand + spot == 0:
            raise BadPolicy(text, "one of the two weights must be above 0")
        return Ratio(base, on_demand, spot)
    raise BadPolicy(text, did_you_mean(text, STRATEGIES) if len(text) <= 64 else "")


def parse_percent(text: str, digits: str) -> int:
    """Of 0 to 100; `BadPolicy` names the whole text."""
    percent = int(digits)
    if percent > 100:
        raise BadPolicy(text, "a percentage is at most 100%")
    return percent


def target(policy: Policy, replicas: int, *, stateful: bool, safe_deployments: bool = False) -> int:
    """M: pods of `replicas` that must be on demand, from 0 to `replicas`.

    `safe_deployments` makes 1 of the default 0 for Deployments of two replicas or more (S35).
    """
    replicas = max(0, replicas)
    match policy:
        case Default():
            least = 1 if safe_deployments and replicas >= 2 else 0
            return _majority(replicas) if stateful else least
        case Count(pods):
            return min(pods, replicas)
        case Percent(percent):
            return -(-replicas * percent // 100)
        case Ratio(base, on_demand, spot):
            rest = max(0, replicas - base)
            return min(replicas, base + -(-rest * on_demand // (on_demand + spot)))
        case AllOnDemand():
            return replicas
        case AllSpot():
            return 0
        case Majority():
            return _majority(replicas)
        case LeastAndShare(least, spot_percent):
            return min(replicas, max(least, replicas - replicas * spot_percent // 100))


def _majority(replicas: int) -> int:
    return replicas if replicas <= 1 else replicas // 2 + 1


def kept_text(policy: Policy) -> str:
    """The policy in at most 44 characters without blanks, for `read_kept`; it asks for as many pods as ever."""
    match policy:
        case Count(pods):
            return str(Count(min(pods, _MOST_PODS)))
        case LeastAndShare(least, spot_percent):
            return str(LeastAndShare(min(least, _MOST_PODS), spot_percent))
    return str(policy)


def read_kept(text: str) -> Policy | None:
    """The policy that `kept_text` wrote; None for any other text."""
    if match := _SHARE.fullmatch(text):
        least, spot_percent = map(int, match.groups())
        return LeastAndShare(least, spot_percent) if spot_percent <= 100 else None
    try:
        return parse_policy(text)
    except BadPolicy:
        return None
