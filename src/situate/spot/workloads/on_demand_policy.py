"""On-demand policy of a workload: its text, and the number of pods that it requires.

A policy is a value; `on_demand_target` turns it into a number. `on_demand_target` decides which of several annotations
applies. Rules: P10, P11, S27 to S30.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from situate.objects.settings.section import format_value, spelling_hint

_NUMBER: Final = re.compile(r"[0-9]{1,100}", re.ASCII)
_PERCENT: Final = re.compile(r"([0-9]{1,100})%", re.ASCII)
_RATIO: Final = re.compile(r"base=([0-9]{1,9}),weight=([0-9]{1,9}):([0-9]{1,9})", re.ASCII)
_SHARE: Final = re.compile(r"min-on-demand=([0-9]{1,100}),spot-percentage=([0-9]{1,3})", re.ASCII)
_MOST_PODS: Final = 2**31 - 1
"""No workload has more: `spec.replicas` is an int32."""
ALLOWED_VALUES: Final = (
    "a number of pods such as 3, a percentage from 0% to 100%, base=2,weight=1:3 (on demand : spot), "
    "all-on-demand, all-spot, majority or default"
)


class BadPolicy(ValueError):
    """Text that is no policy; the message gives the value found and the values allowed."""

    def __init__(self, text: object, why: str = "") -> None:
        hint = f"; {why}" if why else ""
        super().__init__(f"found {format_value(text)}, allowed: {ALLOWED_VALUES}{hint}")


@dataclass(frozen=True, slots=True)
class Default:
    """No pod for a Deployment; all of one pod, or more than half, for a StatefulSet."""

    def __str__(self) -> str:
        return "default"


@dataclass(frozen=True, slots=True)
class Count:
    pods: int

    def __str__(self) -> str:
        return str(self.pods)


@dataclass(frozen=True, slots=True)
class Percent:
    """A percentage of spec.replicas, rounded up."""

    percent: int

    def __str__(self) -> str:
        return f"{self.percent}%"


@dataclass(frozen=True, slots=True)
class Ratio:
    """A base number, and a share of the rest, rounded up."""

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
    """More than half."""

    def __str__(self) -> str:
        return "majority"


@dataclass(frozen=True, slots=True)
class LeastAndShare:
    """spotalis' pair: a minimum, and the pods beyond the spot percentage, which is rounded down."""

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
"""By name; the last three are the original names of the design goal (S34)."""


_LEAST_TO_100: Final = "0{0,99}[0-9]|0{0,98}[0-9]{2}|0{0,97}100"
"""Numbers from 0 to 100 with at most as many digits as `_PERCENT` accepts."""
POLICY_PATTERN: Final = "|".join(
    (*sorted(STRATEGIES), _NUMBER.pattern, f"({_LEAST_TO_100})%", _RATIO.pattern.replace("(", "").replace(")", ""))
)
"""The same grammar as an RE2 expression for CEL.

A text is valid if it matches as a whole and not `ZERO_WEIGHTS_PATTERN`.
"""
ZERO_WEIGHTS_PATTERN: Final = "base=[0-9]+,weight=0+:0+"
LONGEST_POLICY: Final = 101
"""Longest policy in characters."""


def parse_policy(text: str) -> Policy:
    """Return the policy that an annotation means; raises `BadPolicy` for any other text."""
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
    raise BadPolicy(text, spelling_hint(text, STRATEGIES) if len(text) <= 64 else "")


def parse_percent(text: str, digits: str) -> int:
    """Return a percentage from 0 to 100; else `BadPolicy` names the whole text."""
    percent = int(digits)
    if percent > 100:
        raise BadPolicy(text, "a percentage is at most 100%")
    return percent


def on_demand_target(policy: Policy, replicas: int, *, stateful: bool, safe_deployments: bool = False) -> int:
    """Return M: the number of pods out of `replicas` that must be on demand, from 0 to `replicas`.

    `safe_deployments` raises the default from 0 to 1 for Deployments of two replicas or more (S35).
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


def encode_policy(policy: Policy) -> str:
    """Encode the policy in at most 44 characters without blanks, for `decode_policy`.

    The required number is unchanged.
    """
    match policy:
        case Count(pods):
            return str(Count(min(pods, _MOST_PODS)))
        case LeastAndShare(least, spot_percent):
            return str(LeastAndShare(min(least, _MOST_PODS), spot_percent))
    return str(policy)


def decode_policy(text: str) -> Policy | None:
    """Decode the policy that `encode_policy` wrote; None for any other text."""
    if match := _SHARE.fullmatch(text):
        least, spot_percent = map(int, match.groups())
        return LeastAndShare(least, spot_percent) if spot_percent <= 100 else None
    try:
        return parse_policy(text)
    except BadPolicy:
        return None
