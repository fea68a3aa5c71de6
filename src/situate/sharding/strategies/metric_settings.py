"""What users set of MinMetricScore."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class MetricSettings:
    """Raises `ValueError` with the name of a setting that cannot be used."""

    weights: Mapping[str, float] = field(default_factory=lambda: {"cpu": 1.0})
    """By metric; a sample needs every one of them."""
    capacity: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By executor and metric; 1 where nothing is given."""
    max_age_s: float = 60.0
    """The oldest that a usable sample may be."""
    missing: Literal["exclude", "worst"] = "exclude"
    """Who has no usable sample is not chosen, or counts as whoever scores worst."""
    fallback: Literal["MinScheduled", "RoundRobin", "none"] = "MinScheduled"
    """Who chooses while nobody has a usable sample; none: `NoMetrics` is raised."""
    per_object_estimate: Mapping[str, float] | Literal["auto"] = "auto"
    """What one unit of work costs, by metric, 0 where nothing is given; auto: what open work costs on the whole."""
    slow_start_max_share: float | None = None

    def __post_init__(self) -> None:
        if not self.weights or not any(self.weights.values()):
            raise ValueError("weights is empty or all 0, allowed: a number for each metric, one of them more than 0")
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
