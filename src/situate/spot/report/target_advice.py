"""Adviser for the on-demand number of a workload: plans show the advice, and it changes nothing.

The advice is the smallest sufficient number for all recorded waves, as if each came without a notice. It is sufficient
if a Deployment keeps a ready pod, or a StatefulSet its majority. Cost is shown separately. Rules: B44, S31.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from situate.spot.model.misplaced_pods import Workload
from situate.spot.nodes.interruptions import InterruptionHistory, Wave
from situate.spot.report.wave_impact import Pace


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice for one workload."""

    on_demand: int
    """Sufficient number."""
    asked: int
    """Current target."""
    waves: int
    """Number of recorded waves."""
    too_few: int
    """Recorded waves for which the current target is not sufficient."""
    worst: float
    """Largest share of the spot nodes that ended at once."""
    short_s_per_month: float
    """Expected seconds per month with too few ready pods at the current target, from the record."""


def advise_target(workload: Workload, history: InterruptionHistory, now: float, pace: Pace = Pace()) -> Advice | None:  # noqa: B008  # frozen
    """Return the advice; None without recorded waves or without replicas."""
    owner, asked = workload.owner, workload.target
    if not history.waves or owner.replicas < 1:
        return None
    least = owner.replicas // 2 + 1 if owner.stateful else 1
    too_few = sum(_ready_after_wave(owner.replicas, asked, wave) < least for wave in history.waves)
    worst = max(history.waves, key=lambda wave: wave.share)
    counts = range(owner.replicas + 1)  # a bisection: two billion replicas take 31 evaluations
    enough = bisect_left(
        counts, min(least, owner.replicas), key=lambda count: _ready_after_wave(owner.replicas, count, worst)
    )
    months = max(history.months(now), 1.0)  # one day with a wave does not mean thirty waves a month
    short_s = too_few * (pace.detection_s + pace.start_s) / months
    return Advice(enough, asked, len(history.waves), too_few, worst.share, short_s)


def _ready_after_wave(replicas: int, on_demand: int, wave: Wave) -> int:
    """Return the smallest number of ready pods after a wave: of the pods on spot, its share is lost, rounded up."""
    on_spot = max(0, replicas - on_demand)
    return replicas - math.ceil(on_spot * wave.share)
