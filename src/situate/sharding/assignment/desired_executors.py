"""Compute how many executors the open work needs, for an autoscaler: up at once, down slowly, 0 when nothing is open.

Objects that wait for capacity count like assigned ones. Otherwise a pool of 0 executors would stay at 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SizingConfig:
    """Configuration of the sizing. Raises `ValueError` for contradictory bounds and for an invalid capacity."""

    per_executor: float
    """Weight of open work that one executor can hold."""
    least: int = 1
    """Minimum number of executors while any object is open."""
    most: int = 1_000_000
    half_life_s: float = 60.0
    """Half-life of the smoothing: the time in which half of an excess over the current need decays."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.per_executor) and self.per_executor > 0):
            raise ValueError(f"per_executor is {self.per_executor:g}, allowed: a number above 0")
        if not 0 <= self.least <= self.most or self.most < 1:
            raise ValueError(f"least is {self.least} and most {self.most}, allowed: 0 <= least <= most, 1 <= most")
        if not self.half_life_s >= 0:
            raise ValueError(f"half_life_s is {self.half_life_s:g}, allowed: a number of seconds of at least 0")


@dataclass(frozen=True, slots=True)
class SizingState:
    """The smoothed weight of open work, and the time of its computation."""

    weight: float = 0.0
    at: float = 0.0
    """On the monotonic clock."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """The number to report, and the state for the next computation."""

    desired: int
    state: SizingState


def desired_executors(state: SizingState, config: SizingConfig, open_weight: float, now: float) -> Sizing:
    """Return the number of executors to report.

    `open_weight`: total weight of the objects that are not completed and that are assigned or ready for assignment.
    """
    if open_weight <= 0:
        return Sizing(0, SizingState(0.0, now))
    elapsed = max(0.0, now - state.at)
    left = 0.5 ** (elapsed / config.half_life_s) if config.half_life_s else 0.0
    smoothed = max(open_weight, open_weight + (state.weight - open_weight) * left)
    # the smoothed excess never reaches 0: a twentieth of an executor is ignored
    wanted = math.ceil(smoothed / config.per_executor - 0.05)
    needed = math.ceil(open_weight / config.per_executor - 1e-9)
    desired = min(max(wanted, needed, config.least, 1), config.most)
    return Sizing(desired, SizingState(smoothed, now))
