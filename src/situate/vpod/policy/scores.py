"""The priorities: scores of each Pod for placing one more vreplica, or for removing one.

Each score answers for all Pods of a view at once with exact integers; higher is better. Most scores count a penalty.
Upstream turns a penalty into 2**64 - 1 - penalty, which `as_uint64` returns. Upstream: pkg/scheduler/plugins/core of
knative/eventing v0.43.0. `MaxSkew` only causes a log line upstream; it is validated here and has no effect.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from situate.vpod.policy.filters import INVALID_ARGUMENTS
from situate.vpod.policy.spread import unevenness
from situate.vpod.policy.status import Code
from situate.vpod.policy.view import UNKNOWN_DOMAIN, Bools, Domains, Ints, PolicyView


class Scores(msgspec.Struct, frozen=True):
    """The scores of one plugin, one entry for each Pod. If `failed` is set, `code` and `reason` give the cause."""

    value: Ints  # exact; the negative penalty if `counts_down`
    counts_down: bool  # upstream's number is 2**64 - 1 + value
    failed: Bools
    code: Code = Code.SUCCESS
    reason: str = ""

    def as_uint64(self) -> NDArray[np.uint64]:
        """Return upstream's unsigned number; 0 if the plugin failed."""
        number = (self.value - 1 if self.counts_down else self.value).view(np.uint64)
        return np.where(self.failed, np.uint64(0), number)


class Direction(enum.IntEnum):
    """Whether a vreplica is added or removed, as the step by which its count changes."""

    PLACE = 1
    REMOVE = -1


@dataclass(frozen=True, slots=True)
class PodSpreadScore:
    """EvenPodSpread and RemoveWithEvenPodSpreadPriority."""

    direction: Direction

    def scores(self, view: PolicyView) -> Scores:
        if view.replicas == 0:
            return _zero_scores(view)
        if self.direction is Direction.PLACE:
            compared = view.schedulable & ((view.own != 0) | (view.free != 0))
        else:
            compared = view.schedulable & view.in_spread
        return Scores(-unevenness(view.own, compared, self.direction), True, _no_pods(view))


@dataclass(frozen=True, slots=True)
class DomainSpreadScore:
    """AvailabilityNodePriority, AvailabilityZonePriority, and the two that remove."""

    domain_kind: Literal["node", "zone"]
    direction: Direction

    def scores(self, view: PolicyView) -> Scores:
        if view.replicas == 0:
            return _zero_scores(view)
        domains = view.nodes if self.domain_kind == "node" else view.zones
        failed = domains.of_pod == UNKNOWN_DOMAIN
        return Scores(
            -np.where(failed, 0, self._penalties(domains)),
            True,
            failed,
            Code.ERROR,
            f"{self.domain_kind} does not exist",
        )

    def _penalties(self, domains: Domains) -> Ints:
        if len(domains.own) == 0:
            return np.zeros(len(domains.of_pod), dtype=np.int64)
        compared = np.ones_like(domains.in_spread) if self.direction is Direction.PLACE else domains.in_spread
        return unevenness(domains.own, compared, self.direction)[domains.of_pod]


@dataclass(frozen=True, slots=True)
class OrdinalScore:
    """LowestOrdinalPriority uses the ordinal as a penalty, RemoveWithHighestOrdinalPriority uses it as the score."""

    direction: Direction

    def scores(self, view: PolicyView) -> Scores:
        if self.direction is Direction.PLACE:
            return Scores(-view.ordinals, True, _no_pods(view))
        return Scores(view.ordinals, False, _no_pods(view))


@dataclass(frozen=True, slots=True)
class NoScore:
    """Replaces a priority with invalid arguments. Upstream scores nothing in this case."""

    def scores(self, view: PolicyView) -> Scores:
        every = np.ones(len(view.ordinals), dtype=np.bool_)
        return Scores(np.zeros_like(view.ordinals), False, every, Code.UNSCHEDULABLE, INVALID_ARGUMENTS)


Score = PodSpreadScore | DomainSpreadScore | OrdinalScore | NoScore


def _no_pods(view: PolicyView) -> Bools:
    return np.zeros(len(view.ordinals), dtype=np.bool_)


def _zero_scores(view: PolicyView) -> Scores:
    """Return score 0 for all Pods, as upstream does without replicas."""
    return Scores(np.zeros_like(view.ordinals), False, _no_pods(view))
