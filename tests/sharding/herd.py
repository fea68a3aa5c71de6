"""Load that builds up and is sampled now and then: what a strategy that goes by metrics makes of it (B7)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Literal

from situate.sharding.strategies import MetricSettings, MinMetricScore, ObjectFacts, Sample
from tests.sharding.strategies.telling import healthy, scheduled

COST = 0.01
STEPS = 4000


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def peak_to_mean(estimate: Mapping[str, float] | Literal["auto"], stagger: int, steps: int = STEPS) -> float:
    """10 arrivals/s over 10 executors, samples every 15 s: the most that one executor has against the mean.

    Objects take 20 s on average and 0.01 cpu each. `stagger`: by how many tenths of a second one executor samples after
    the other. The first 2 minutes (1200 of the `steps`), in which the load is built up, do not count.
    """
    chance = random.Random(7)
    clock = Clock()
    strategy = MinMetricScore(clock, MetricSettings(per_object_estimate=estimate))
    executors = [f"e{number}" for number in range(10)]
    healthy(strategy, *executors)
    held: Counter[str] = Counter()
    ends: list[tuple[float, str, str]] = []
    started, worst = clock.now, 0.0
    for step in range(steps):
        clock.now = started + step / 10
        while ends and ends[0][0] <= clock.now:
            _, uid, executor = heappop(ends)
            held[executor] -= 1
            strategy.observe_completed(ObjectFacts(uid))
        for number, executor in enumerate(executors):
            if (step - stagger * number) % 150 == 0 or step == 0:
                strategy.observe_sample(executor, Sample({"cpu": 0.05 + COST * held[executor]}, clock.now))
        (executor,) = scheduled(strategy, [f"o{step}"])
        held[executor] += 1
        heappush(ends, (clock.now + chance.expovariate(1 / 20), f"o{step}", executor))
        if step >= 1200:
            worst = max(worst, max(held.values()) / (sum(held.values()) / 10))
    return worst
