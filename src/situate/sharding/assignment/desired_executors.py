"""How many executors the open work wants, for an autoscaler to follow: up at once, down slowly, 0 when nothing is open.

What waits for room counts like what is assigned, or a pool of 0 would stay one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SizingConfig:
    """Raises `ValueError` for bounds that contradict each other and for what is no capacity."""

    per_executor: float
    """Weight of open work that one executor takes."""
    least: int = 1
    """While anything is open."""
    most: int = 1_000_000
    half_life_s: float = 60.0
    """In which what was wanted more than now loses half of its weight."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.per_executor) and self.per_executor > 0):
            raise ValueError(f"per_executor is {self.per_executor:g}, allowed: a number above 0")
        if not 0 <= self.least <= self.most or self.most < 1:
            raise ValueError(f"least is {self.least} and most {self.most}, allowed: 0 <= least <= most, 1 <= most")
        if not self.half_life_s >= 0:
            raise ValueError(f"half_life_s is {self.half_life_s:g}, allowed: a number of seconds of at least 0")


@dataclass(frozen=True, slots=True)
class SizingState:
    """The smoothed weight of open work, and when it was that."""

    weight: float = 0.0
    at: float = 0.0
    """On the monotonic clock."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """What to report."""

    desired: int
    state: SizingState


def desired_executors(state: SizingState, config: SizingConfig, open_weight: float, now: float) -> Sizing:
    """`open_weight`: of all objects that are not completed and are assigned, or ready to be."""
    if open_weight <= 0:
        return Sizing(0, SizingState(0.0, now))
    elapsed = max(0.0, now - state.at)
    left = 0.5 ** (elapsed / config.half_life_s) if config.half_life_s else 0.0
    smoothed = max(open_weight, open_weight + (state.weight - open_weight) * left)
    # what is smoothed never quite ends: a twentieth of an executor is not worth one
    wanted = math.ceil(smoothed / config.per_executor - 0.05)
    needed = math.ceil(open_weight / config.per_executor - 1e-9)
    desired = min(max(wanted, needed, config.least, 1), config.most)
    return Sizing(desired, SizingState(smoothed, now))
