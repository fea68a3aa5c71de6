"""User settings of MinMetricScore."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class MetricSettings:
    """Settings of MinMetricScore. Raises `ValueError` with the name of an invalid setting."""

    weights: Mapping[str, float] = field(default_factory=lambda: {"cpu": 1.0})
    """Weights by metric; a usable sample has all of these metrics."""
    capacity: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Capacities by executor and metric; 1 where none is given."""
    max_age_s: float = 60.0
    """Maximum age of a usable sample, in seconds."""
    missing: Literal["exclude", "worst"] = "exclude"
    """Executors without a usable sample are not chosen (exclude), or count like the worst score (worst)."""
    fallback: Literal["MinScheduled", "RoundRobin", "none"] = "MinScheduled"
    """The strategy that chooses while no executor has a usable sample; none: raise `NoMetrics`."""
    per_object_estimate: Mapping[str, float] | Literal["auto"] = "auto"
    """Cost of one unit of work by metric, 0 where none is given; auto: the mean cost of a unit of open work."""
    slow_start_max_share: float | None = None

    def __post_init__(self) -> None:
        if not self.weights or not any(self.weights.values()):
            raise ValueError("weights is empty or all 0, allowed: a number for each metric, at least one above 0")
        numbers = [(f"weights.{metric}", weight, True) for metric, weight in self.weights.items()]
        for executor, capacities in self.capacity.items():
            numbers += [(f"capacity.{executor}.{metric}", each, False) for metric, each in capacities.items()]
        if self.per_object_estimate != "auto":
            estimates = self.per_object_estimate.items()
            numbers += [(f"per_object_estimate.{metric}", each, True) for metric, each in estimates]
        for name, number, may_be_zero in numbers:
            if not math.isfinite(number) or number < 0 or (number == 0 and not may_be_zero):
                raise ValueError(
                    f"{name} is {number:g}, allowed: a number {'of at least' if may_be_zero else 'above'} 0"
                )
        if not self.max_age_s >= 0:
            raise ValueError(f"max_age_s is {self.max_age_s:g}, allowed: a number of seconds of at least 0")
        for name, found, known in (
            ("missing", self.missing, ("exclude", "worst")),
            ("fallback", self.fallback, ("MinScheduled", "RoundRobin", "none")),
        ):
            if found not in known:
                raise ValueError(f"{name} is {found!r}, allowed: {', '.join(known)}")
