"""Plan the next step for the ordinals of a StatefulSet: pods to create, delete or replace.

Upstream: stateful_set_control.go, updateStatefulSet. The group's summary (its sorted ordinals, the pods that are not
well) shows where the first step is due. So a reconcile does not visit thousands of healthy pods.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from situate.cluster.controllers.machinery.pod_index import PodGroup
from situate.cluster.controllers.machinery.tables import Obj
from situate.cluster.controllers.node.pods import PodFacts


class DeletionReason(Enum):
    """Reason for the deletion of a pod."""

    FINISHED = "finished"
    SCALED_DOWN = "scaled down"
    OUTDATED = "outdated"


@dataclass(frozen=True, slots=True)
class StatefulSetStep:
    """The next actions; empty while the set waits for a pod."""

    create: tuple[int, ...] = ()
    """Ordinals without a pod."""
    delete: tuple[tuple[PodFacts, DeletionReason], ...] = ()
    pending: tuple[PodFacts, ...] = ()
    """Pods with possibly missing claims."""


@dataclass(frozen=True)
class Ordinals:
    """The pods of a set compared with its spec."""

    stateful_set: Obj
    group: PodGroup
    now: float

    @property
    def start(self) -> int:
        start: int = (self.stateful_set["spec"].get("ordinals") or {}).get("start", 0)
        return start

    @property
    def end(self) -> int:
        """First ordinal after the requested range."""
        replicas: int = self.stateful_set["spec"].get("replicas", 1)
        return self.start + replicas

    @property
    def min_ready_seconds(self) -> int:
        seconds: int = self.stateful_set["spec"].get("minReadySeconds", 0)
        return seconds

    @property
    def ordered(self) -> bool:
        return bool(self.stateful_set["spec"].get("podManagementPolicy") != "Parallel")

    def is_wanted(self, pod: PodFacts) -> bool:
        return pod.index in range(self.start, self.end)

    def missing_ordinals(self) -> Iterator[int]:
        """Yield the ordinals without a pod, ascending."""
        have = self.group.ordinals
        at = bisect_left(have, self.start)
        # Ordinals are distinct, so none is missing if the range has as many pods as requested.
        if bisect_left(have, self.end) - at == self.end - self.start:
            return
        expected = self.start + self._gapless_count(at)
        at = bisect_left(have, expected)
        while expected < self.end:
            if at < len(have) and have[at] == expected:
                at += 1
            else:
                yield expected
            expected += 1

    def condemned_pods(self) -> list[PodFacts]:
        """Return the pods outside the range, highest ordinal first."""
        have = self.group.ordinals
        outside = have[: bisect_left(have, self.start)] + have[bisect_left(have, self.end) :]
        name = self.stateful_set["metadata"]["name"]
        return [self.group.pods[f"{name}-{ordinal}"] for ordinal in reversed(outside)]

    def unavailable_pods(self) -> Iterator[PodFacts]:
        """Yield pods that are terminating, not Running and Ready, or not ready for minReadySeconds yet."""
        if self.min_ready_seconds == 0:
            yield from self.group.unsettled.values()
            return
        for pod in self.group.pods.values():
            if pod.name in self.group.unsettled or not pod.is_available(self.min_ready_seconds, self.now):
                yield pod

    def _gapless_count(self, at: int) -> int:
        """Return how many ordinals from `start` on exist without a gap."""
        have = self.group.ordinals
        low, high = at, bisect_left(have, self.end)
        while low < high:
            middle = (low + high) // 2
            if have[middle] - self.start == middle - at:
                low = middle + 1
            else:
                high = middle
        return low - at


def next_step(ordinals: Ordinals, update_revision: str) -> StatefulSetStep:
    """Return the next step."""
    unavailable = [pod for pod in ordinals.unavailable_pods() if pod.index >= 0]
    if ordinals.ordered:
        return _ordered_step(ordinals, unavailable, update_revision)
    return _parallel_step(ordinals, unavailable, update_revision)


def _ordered_step(ordinals: Ordinals, unavailable: list[PodFacts], update_revision: str) -> StatefulSetStep:
    ill = min((pod for pod in unavailable if ordinals.is_wanted(pod)), key=lambda pod: pod.index, default=None)
    gap = next(ordinals.missing_ordinals(), None)
    if gap is not None and (ill is None or gap < ill.index):
        return StatefulSetStep(create=(gap,))
    if ill is not None:
        return _wait_for(ill)
    condemned = ordinals.condemned_pods()
    if condemned:
        highest = condemned[0]
        lowest_ill = min(unavailable, key=lambda pod: pod.index, default=None)
        blocked = highest.terminating or (highest in unavailable and highest is not lowest_ill)
        return StatefulSetStep() if blocked else StatefulSetStep(delete=((highest, DeletionReason.SCALED_DOWN),))
    return _update_step(ordinals, unavailable, update_revision)


def _parallel_step(ordinals: Ordinals, unavailable: list[PodFacts], update_revision: str) -> StatefulSetStep:
    create = tuple(ordinals.missing_ordinals())
    ill = sorted((pod for pod in unavailable if ordinals.is_wanted(pod)), key=lambda pod: pod.index)
    delete = [(pod, DeletionReason.FINISHED) for pod in ill if pod.finished and not pod.terminating]
    delete += [(pod, DeletionReason.SCALED_DOWN) for pod in ordinals.condemned_pods() if not pod.terminating]
    pending = tuple(pod for pod in ill if pod.phase == "Pending")
    replaced = _update_step(ordinals, unavailable, update_revision).delete if not create else ()
    gone = {pod.name for pod, _ in delete}
    delete += [entry for entry in replaced if entry[0].name not in gone]
    return StatefulSetStep(create, tuple(delete), pending)


def _wait_for(pod: PodFacts) -> StatefulSetStep:
    """Handle the first unhealthy pod. An ordered set does not go past it."""
    if pod.finished:
        return StatefulSetStep() if pod.terminating else StatefulSetStep(delete=((pod, DeletionReason.FINISHED),))
    return StatefulSetStep(pending=(pod,) if pod.phase == "Pending" else ())


def _update_step(ordinals: Ordinals, unavailable: list[PodFacts], update_revision: str) -> StatefulSetStep:
    """Delete the highest outdated pod in a rolling update, once all pods above it are available."""
    strategy = ordinals.stateful_set["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return StatefulSetStep()
    least = ordinals.start + (strategy.get("rollingUpdate") or {}).get("partition", 0)
    outdated = [
        pod
        for revision, pods in ordinals.group.by_revision.items()
        if revision != update_revision
        for pod in pods.values()
        if least <= pod.index < ordinals.end
    ]
    if not outdated:
        return StatefulSetStep()
    highest = max(outdated, key=lambda pod: pod.index)
    if any(highest.index < pod.index < ordinals.end for pod in unavailable):
        return StatefulSetStep()
    return StatefulSetStep(delete=((highest, DeletionReason.OUTDATED),))
