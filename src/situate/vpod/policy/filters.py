"""The predicates: filters that decide which Pods may take one more vreplica of the vpod.

Each filter answers for all Pods of a view at once, and has one reason for the Pods that do not pass. Upstream:
pkg/scheduler/plugins/core and plugins/kafka of knative/eventing v0.43.0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situate.vpod.policy.spread import widest_gap
from situate.vpod.policy.view import Bools, PolicyView

INVALID_ARGUMENTS = "invalid arguments"
FULL = "pod at full capacity"
TOO_MANY_PODS = "pod increases total # of pods beyond partition count"
UNEVEN = "pod will cause an uneven spread"


@dataclass(frozen=True, slots=True)
class PodFitsResources:
    """Passes Pods with free capacity for one more vreplica; passes all Pods if no free capacity is known."""

    reason: str = FULL

    def passes(self, view: PolicyView) -> Bools:
        if not view.free_known:
            return np.ones(len(view.ordinals), dtype=np.bool_)
        return view.free >= view.weight


@dataclass(frozen=True, slots=True)
class NoMaxResourceCount:
    """Passes only if at most `num_partitions` Pods hold the vpod: more consumers than partitions would idle."""

    num_partitions: int
    reason: str = TOO_MANY_PODS

    def passes(self, view: PolicyView) -> Bools:
        if int(view.in_spread.sum()) + 1 <= self.num_partitions:
            return np.ones(len(view.ordinals), dtype=np.bool_)
        return view.in_spread.copy()


@dataclass(frozen=True, slots=True)
class EvenPodSpread:
    """Passes Pods where one more vreplica stays within `max_skew` of every other schedulable Pod.

    Pods that other vpods have filled are not compared.
    """

    max_skew: int
    reason: str = UNEVEN

    def passes(self, view: PolicyView) -> Bools:
        if view.replicas == 0:
            return np.ones(len(view.ordinals), dtype=np.bool_)
        compared = view.schedulable & ((view.own != 0) | (view.free > 0))
        return widest_gap(view.own, compared) <= self.max_skew


@dataclass(frozen=True, slots=True)
class RefusesAll:
    """Replaces a predicate with invalid arguments. Upstream finds every Pod unschedulable in this case."""

    reason: str = INVALID_ARGUMENTS

    def passes(self, view: PolicyView) -> Bools:
        return np.zeros(len(view.ordinals), dtype=np.bool_)


Filter = PodFitsResources | NoMaxResourceCount | EvenPodSpread | RefusesAll
