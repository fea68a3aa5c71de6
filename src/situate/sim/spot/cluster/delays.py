"""Delays in a simulated cluster, and the source of its random numbers.

The defaults are those of the baselines in docs/spec/spot.md where it states them. The others were derived from its
figures, as the comments describe.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Protocol

_Z95: Final = NormalDist().inv_cdf(0.95)


class GaussianSource(Protocol):
    """A source of random numbers, such as `random.Random`."""

    def gauss(self, mu: float, sigma: float) -> float: ...


GaussianSources = Callable[[str], GaussianSource]
"""Returns a source of random numbers for a name. Equal names give equal numbers."""


@dataclass(frozen=True, slots=True)
class LogNormalTime:
    """A log-normal time, like the starts of programs. It is never below 0."""

    median_s: float
    p95_s: float

    def draw(self, chance: GaussianSource) -> float:
        sigma = math.log(self.p95_s / self.median_s) / _Z95 if self.p95_s > self.median_s > 0 else 0.0
        return self.median_s * math.exp(chance.gauss(0.0, sigma)) if sigma else self.median_s


@dataclass(frozen=True, slots=True)
class NormalTime:
    """A normally distributed time, never below 0."""

    mean_s: float
    deviation_s: float = 0.0

    def draw(self, chance: GaussianSource) -> float:
        return max(0.0, chance.gauss(self.mean_s, self.deviation_s)) if self.deviation_s else self.mean_s


@dataclass(frozen=True, slots=True)
class Delays:
    """Delays of one cluster, in seconds."""

    start: LogNormalTime = LogNormalTime(25.0, 60.0)
    """From the binding to a node until a pod serves."""
    node_start: NormalTime = NormalTime(75.0, 15.0)
    """From the request for a node until it accepts pods.

    The mean is the spec's. Its figures for pods that each wait for their own node (first of ten after 74 s, sixth after
    105 s) require a deviation of about 15 s.
    """
    detection_s: float = 55.0
    """From the end of a node that is deleted with its Node object until its pods are removed."""
    silent_s: float = 45.0
    """From the end of a node whose Node object stays until it is seen as unreachable.

    The pods' tolerations follow, 300 s by default, which makes 345 s in the spec.
    """
    create_s: float = 0.1
    """From the loss of a pod until its controller creates another one."""
    bind_s: float = 0.2
    """From a pod's creation, or a change of the nodes, until the scheduler has bound all pods that fit.

    With `create_s` this is the 0.3 s by which the spec's sums exceed its starts alone.
    """
    react_s: float = 0.5
    """From a change until the reaction of our controller, and of other tools that drain nodes with a notice."""
    stop_s: float = 2.0
    """How long a deleted pod still serves, until it is removed from the endpoints.

    In the spec's announced waves, pods serve until 2 s before their node ends. spot deletes them at least 5 s before it
    (`waves.MARGIN_S`), which requires 3 s. Its waves with evictions at the notice require 1 s at most.
    """
    end_s: float = 1.0
    """From its deletion until a pod is gone and its place is free."""


BASELINE: Final = Delays()
"""The delays of the spec's table."""
