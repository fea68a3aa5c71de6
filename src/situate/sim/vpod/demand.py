"""The demand of each source over time: a scenario's shapes as the times at which the wanted number changes."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from situate.sim.vpod.settings import BurstSettings, DemandSettings, ScenarioSettings, SineSettings, WalkSettings
from situate.vpod.model.vpod import Key


class UniformSource(Protocol):
    """A source of random numbers, such as `random.Random`."""

    def random(self) -> float:
        """Return a number of at least 0 and below 1."""
        ...


UniformSources = Callable[[str], UniformSource]
"""Returns a source of random numbers for a name. Equal names give equal numbers."""
Curve = list[tuple[float, float]]
"""Times, ascending, with the number from each time on."""


@dataclass(frozen=True, slots=True)
class Demand:
    """One source with its whole demand."""

    key: Key
    weight: int
    priority: int
    changes: tuple[tuple[float, int | None], ...]
    """Times, ascending, with the wanted vreplicas from then on.

    No two in a row are equal. None: the source is deleted.
    """


def demands(scenario: ScenarioSettings, chances: UniformSources) -> Iterator[Demand]:
    """Yield every source of the scenario, in its order. The same seed gives every variant the same demand."""
    for source in scenario.sources:
        for number, name in enumerate(source.names()):
            key = Key(source.namespace, name)
            arrives = source.arrives + number * source.stagger
            leaves = scenario.duration if source.leaves is None else min(source.leaves, scenario.duration)
            curve = total_curve(source.shapes(), scenario.duration, chances(f"{scenario.seed} {key}"))
            changes: list[tuple[float, int | None]] = list(_changes_while_present(curve, arrives, leaves))
            if changes and source.leaves is not None and source.leaves < scenario.duration:
                changes.append((source.leaves, None))
            yield Demand(key, source.weight, source.priority, tuple(changes))


def total_curve(shapes: DemandSettings, duration: float, chance: UniformSource) -> Curve:
    """Return the sum of the shapes, rounded to whole vreplicas and never below 0."""
    curves: list[Curve] = []
    if shapes.steady is not None:
        curves.append([(0.0, shapes.steady)])
    if shapes.steps is not None:
        curves.append([(when, float(wanted)) for when, wanted in sorted(shapes.steps.items())])
    if shapes.sine is not None:
        curves.append(_sine_curve(shapes.sine, duration))
    if shapes.bursts is not None:
        curves.append(_burst_curve(shapes.bursts, duration, chance))
    if shapes.walk is not None:
        curves.append(_walk_curve(shapes.walk, duration, chance))
    changes = sorted(
        (when, after - before)
        for curve in curves
        for (when, after), before in zip(curve, [0.0, *(value for _, value in curve)], strict=False)
    )
    summed: Curve = []
    level = 0.0
    for when, change in changes:
        level += change
        if summed and summed[-1][0] == when:
            summed.pop()
        summed.append((when, float(max(0, round(level)))))
    return summed


def _changes_while_present(curve: Curve, arrives: float, leaves: float) -> Iterator[tuple[float, int]]:
    """Yield the demand from the arrival on, without times at which nothing changes."""
    if arrives >= leaves:
        return
    begun = bisect_right(curve, arrives, key=lambda point: point[0])
    last = int(curve[begun - 1][1]) if begun else 0
    yield arrives, last
    for when, wanted in curve[begun:]:
        if when >= leaves:
            return
        if wanted != last:
            last = int(wanted)
            yield when, last


def _sine_curve(sine: SineSettings, duration: float) -> Curve:
    middle, swing = (sine.high + sine.low) / 2, (sine.high - sine.low) / 2
    turns = 2 * math.pi / sine.period
    return [
        (when, middle + swing * math.cos(turns * (when - sine.peak_at))) for when in _times_until(sine.every, duration)
    ]


def _burst_curve(bursts: BurstSettings, duration: float, chance: UniformSource) -> Curve:
    changes: Curve = []
    for when in _times_until(bursts.every, duration):
        late, happens = chance.random() * bursts.jitter, chance.random() < bursts.chance
        if happens:
            changes += [(when + late, float(bursts.height)), (when + late + bursts.lasting, -float(bursts.height))]
    level = 0.0
    curve: Curve = []
    for when, change in sorted(changes):
        level += change
        curve.append((when, level))
    return curve


def _walk_curve(walk: WalkSettings, duration: float, chance: UniformSource) -> Curve:
    level = walk.start
    curve: Curve = [(0.0, float(level))]
    for when in _times_until(walk.every, duration):
        if when:
            change = int(chance.random() * (2 * walk.step + 1)) - walk.step
            level = min(max(level + change, walk.low), walk.high)
            curve.append((when, float(level)))
    return curve


def _times_until(every: float, duration: float) -> Iterator[float]:
    return (number * every for number in range(math.ceil(duration / every)))
