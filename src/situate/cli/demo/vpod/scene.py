"""What the demo sees of its cluster, and the questions its chapters ask: values, no I/O."""

from __future__ import annotations

from collections import Counter
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
class DemoTask:
    """A plain pod."""

    name: str
    node: str
    """Empty while it waits."""
    why: str
    """What its condition says of a pod that waits."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything at one moment."""

    replicas: int
    """spec.replicas of the StatefulSet."""
    pods: tuple[DemoPod, ...]
    """By ordinal."""
    sources: tuple[DemoSource, ...]
    """By name."""
    tasks: tuple[DemoTask, ...]
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
    def compact(self) -> bool:
        """No pod could be spared, and what was cut is gone."""
        needed = -(-sum(source.wanted for source in self.sources) // self.capacity)
        return len(self.pods) == self.replicas == needed

    @property
    def satisfied(self) -> bool:
        """Every source has exactly what it wants, and on pods that are there."""
        running = {pod.name for pod in self.pods if pod.state == "Running"}
        return all(source.placed == source.wanted and source.placements.keys() <= running for source in self.sources)

    @property
    def within_capacity(self) -> bool:
        return all(sum(self.on(pod.name).values()) <= self.capacity for pod in self.pods)

    @property
    def tasks_by_node(self) -> dict[str, int]:
        """Plain pods on each node that has any, by the node's name."""
        return dict(sorted(Counter(task.node for task in self.tasks if task.node).items()))

    def task(self, name: str) -> DemoTask | None:
        return next((task for task in self.tasks if task.name == name), None)
