"""How long things take in a simulated cluster, and where chance comes from.

The defaults are those of the baselines in the reference (section 7) where these say so, else they were derived from its
figures: see the comments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Protocol

_Z95: Final = NormalDist().inv_cdf(0.95)


class Chance(Protocol):
    """Where numbers by chance come from (`random.Random` is one)."""

    def gauss(self, mu: float, sigma: float) -> float: ...


Chances = Callable[[str], Chance]
"""A source of chance for a name; equal names, equal numbers."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A time that varies as starts of programs do: log-normally, never below 0."""

    median_s: float
    p95_s: float

    def draw(self, chance: Chance) -> float:
        sigma = math.log(self.p95_s / self.median_s) / _Z95 if self.p95_s > self.median_s > 0 else 0.0
        return self.median_s * math.exp(chance.gauss(0.0, sigma)) if sigma else self.median_s


@dataclass(frozen=True, slots=True)
class Around:
    """A time that varies to both sides, never below 0."""

    mean_s: float
    deviation_s: float = 0.0

    def draw(self, chance: Chance) -> float:
        return max(0.0, chance.gauss(self.mean_s, self.deviation_s)) if self.deviation_s else self.mean_s


@dataclass(frozen=True, slots=True)
class Delays:
    """Of one cluster, in seconds."""

    start: Spread = Spread(25.0, 60.0)
    """From being bound to a node until a pod serves."""
    node_start: Around = Around(75.0, 15.0)
    """From asking for a node until it takes pods. The mean is the reference's; with pods that each wait for a node of
    their own its figures (first of ten after 74 s, sixth after 105 s) ask for a deviation of about 15 s."""
    detection_s: float = 55.0
    """From the end of a node whose Node object goes with it until its pods are removed."""
    silent_s: float = 45.0
    """From the end of a node whose Node object stays until it is seen as unreachable; the pods' tolerations of that,
    300 s as a rule, follow: 345 s in the reference."""
    create_s: float = 0.1
    """From the loss of a pod until its controller creates another one."""
    bind_s: float = 0.2
    """From a pod's creation, or a change of the nodes, until the scheduler has bound what can be bound. With `create_s`
    these are the 0.3 s by which the reference's sums exceed its starts alone."""
    react_s: float = 0.5
    """From a change until those who act on it have acted: our controller, and whoever drains nodes with a notice."""
    stop_s: float = 2.0
    """A deleted pod serves for so long: until it is out of the endpoints. In the reference's announced waves pods serve
    until 2 s before their node ends; ours are deleted 5 s before it at the latest (`waves.MARGIN_S`), which asks for
    3 s. Its waves in which pods are evicted at the notice ask for 1 s at most."""
    end_s: float = 1.0
    """From its deletion until a pod is gone and its place is free."""


BASELINE: Final = Delays()
"""Of the reference's table."""
