"""The adviser on how many pods of a workload should be on demand (B44, S31): it is shown in plans and changes nothing.

Its one measure is what was recorded: the smallest number with which no wave so far would have left a Deployment without
a ready pod, or a StatefulSet without its majority, had none of them come with a notice. Cost stands beside it and is
not mixed in.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from situate.spot.model.misplaced import Workload
from situate.spot.nodes.interruptions import History, Wave
from situate.spot.report.wave_impact import Pace


@dataclass(frozen=True, slots=True)
class Advice:
    """For one workload."""

    on_demand: int
    """What would have been enough."""
    asked: int
    """What it asks for now."""
    waves: int
    """So many are recorded."""
    too_few: int
    """Of these, the waves in which the present number would not have been enough."""
    worst: float
    """The largest share of the spot nodes that ended at once."""
    short_s_per_month: float
    """Seconds a month with too few ready pods, expected from what was recorded, as it is asked for now."""


def advice(workload: Workload, history: History, now: float, pace: Pace = Pace()) -> Advice | None:  # noqa: B008  # frozen
    """None where nothing was recorded yet, or there is nothing to protect."""
    owner, asked = workload.owner, workload.target
    if not history.waves or owner.replicas < 1:
        return None
    least = owner.replicas // 2 + 1 if owner.stateful else 1
    too_few = sum(_left(owner.replicas, asked, wave) < least for wave in history.waves)
    worst = max(history.waves, key=lambda wave: wave.share)
    counts = range(owner.replicas + 1)  # of more on demand no fewer are left, so two billion replicas take 31 looks
    enough = bisect_left(counts, min(least, owner.replicas), key=lambda count: _left(owner.replicas, count, worst))
    months = max(history.months(now), 1.0)  # a day with a wave is no thirty waves a month
    short_s = too_few * (pace.detection_s + pace.start_s) / months
    return Advice(enough, asked, len(history.waves), too_few, worst.share, short_s)


def _left(replicas: int, on_demand: int, wave: Wave) -> int:
    """Ready pods that a wave leaves, at the least: of the pods on spot nodes its share is gone, rounded up."""
    on_spot = max(0, replicas - on_demand)
    return replicas - math.ceil(on_spot * wave.share)
