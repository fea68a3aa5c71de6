"""The predicates: which pods may take one more vreplica of the vpod.

Each answers for all pods of a view at once and has one reason for those that do not pass. Upstream:
pkg/scheduler/plugins/core and plugins/kafka of knative/eventing v0.43.0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situate.vpod.policy.spread import widest_gap
from situate.vpod.policy.view import Bools, View

INVALID_ARGUMENTS = "invalid arguments"
FULL = "pod at full capacity"
TOO_MANY_PODS = "pod increases total # of pods beyond partition count"
UNEVEN = "pod will cause an uneven spread"


@dataclass(frozen=True, slots=True)
class PodFitsResources:
    """Room for one more vreplica; all pods pass while nothing is known about room."""

    reason: str = FULL

    def passes(self, view: View) -> Bools:
        if not view.free_known:
            return np.ones(len(view.ordinals), dtype=np.bool_)
        return view.free >= view.weight


@dataclass(frozen=True, slots=True)
class NoMaxResourceCount:
    """At most `num_partitions` pods hold the vpod: more consumers than partitions would idle."""

    num_partitions: int
    reason: str = TOO_MANY_PODS

    def passes(self, view: View) -> Bools:
        if int(view.in_spread.sum()) + 1 <= self.num_partitions:
            return np.ones(len(view.ordinals), dtype=np.bool_)
        return view.in_spread.copy()


@dataclass(frozen=True, slots=True)
class EvenPodSpread:
    """One more here stays within `max_skew` of every other schedulable pod, but those that others have filled."""

    max_skew: int
    reason: str = UNEVEN

    def passes(self, view: View) -> Bools:
        if view.replicas == 0:
            return np.ones(len(view.ordinals), dtype=np.bool_)
        compared = view.schedulable & ((view.own != 0) | (view.free > 0))
        return widest_gap(view.own, compared) <= self.max_skew


@dataclass(frozen=True, slots=True)
class RefusesAll:
    """Stands for a predicate whose arguments cannot be read: upstream then finds every pod unschedulable."""

    reason: str = INVALID_ARGUMENTS

    def passes(self, view: View) -> Bools:
        return np.zeros(len(view.ordinals), dtype=np.bool_)


Filter = PodFitsResources | NoMaxResourceCount | EvenPodSpread | RefusesAll
