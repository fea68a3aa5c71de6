"""What the demo sees of its cluster, and the questions its chapters ask: values, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DemoPod:
    """A pod of the StatefulSet."""

    name: str
    ordinal: int
    node: str
    """Empty while Pending."""
    state: str
    """What a person would call it: Running, Pending, Terminating, node lost."""


@dataclass(frozen=True, slots=True)
class DemoSource:
    """A ConsumerGroup."""

    name: str
    wanted: int
    placements: Mapping[str, int]
    """Vreplicas by pod."""

    @property
    def placed(self) -> int:
        return sum(self.placements.values())


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything at one moment."""

    replicas: int
    """spec.replicas of the StatefulSet."""
    pods: tuple[DemoPod, ...]
    """By ordinal."""
    sources: tuple[DemoSource, ...]
    """By name."""
    nodes: tuple[str, ...]
    """Names of those that exist."""
    leader: str
    """Holder of the Lease; empty if nobody is."""
    capacity: int

    def on(self, pod: str) -> dict[str, int]:
        """Vreplicas on a pod, by source."""
        return {source.name: source.placements[pod] for source in self.sources if source.placements.get(pod)}

    @property
    def even(self) -> bool:
        """No source could be spread more evenly: between two of its pods there is no more than one, or no room."""
        running = [pod.name for pod in self.pods if pod.state == "Running"]
        roomy = [pod for pod in running if sum(self.on(pod).values()) < self.capacity]
        return all(
            max(source.placements.values(), default=0) - source.placements.get(pod, 0) <= 1
            for source in self.sources
            for pod in roomy
        )

    @property
    def satisfied(self) -> bool:
        """Every source has exactly what it wants, and on pods that are there."""
        running = {pod.name for pod in self.pods if pod.state == "Running"}
        return all(source.placed == source.wanted and source.placements.keys() <= running for source in self.sources)

    @property
    def within_capacity(self) -> bool:
        return all(sum(self.on(pod.name).values()) <= self.capacity for pod in self.pods)

    @property
    def highest_used(self) -> int:
        """Ordinal of the last pod that holds anything; -1 if none does."""
        return max((pod.ordinal for pod in self.pods if self.on(pod.name)), default=-1)

    def skew(self, source: str) -> int:
        """Difference between the fullest and the emptiest running pod, for one source."""
        counts = [self.on(pod.name).get(source, 0) for pod in self.pods if pod.state == "Running"]
        return max(counts, default=0) - min(counts, default=0)
