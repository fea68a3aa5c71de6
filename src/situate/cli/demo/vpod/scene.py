"""Observed state of the demo's cluster, with the conditions of its chapters: values, no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from situate.cli.demo.plain_pods import DemoPlainPod


@dataclass(frozen=True, slots=True)
class DemoPod:
    """Pod of the StatefulSet."""

    name: str
    ordinal: int
    node: str
    """Empty while Pending."""
    state: str
    """Running, Pending, Terminating or node lost."""


@dataclass(frozen=True, slots=True)
class DemoSource:
    """ConsumerGroup with its placements."""

    name: str
    wanted: int
    placements: Mapping[str, int]
    """Vreplicas by pod."""

    @property
    def placed_count(self) -> int:
        return sum(self.placements.values())


@dataclass(frozen=True, slots=True)
class VpodScene:
    """State of the cluster at one moment."""

    replicas: int
    """spec.replicas of the StatefulSet."""
    pods: tuple[DemoPod, ...]
    """By ordinal."""
    sources: tuple[DemoSource, ...]
    """By name."""
    tasks: tuple[DemoPlainPod, ...]
    nodes: tuple[str, ...]
    """Names of existing nodes."""
    leader: str
    """Holder of the Lease; empty without a leader."""
    capacity: int

    def vreplicas_on(self, pod: str) -> dict[str, int]:
        """Return the vreplicas on a Pod, by source."""
        return {source.name: source.placements[pod] for source in self.sources if source.placements.get(pod)}

    @property
    def is_even(self) -> bool:
        """Whether every source is spread evenly.

        For each source, every Pod with free capacity holds at most 1 vreplica fewer than the source's fullest Pod.
        """
        running = [pod.name for pod in self.pods if pod.state == "Running"]
        roomy = [pod for pod in running if sum(self.vreplicas_on(pod).values()) < self.capacity]
        return all(
            max(source.placements.values(), default=0) - source.placements.get(pod, 0) <= 1
            for source in self.sources
            for pod in roomy
        )

    @property
    def is_compact(self) -> bool:
        """Whether no Pod is dispensable, and all removed Pods are gone."""
        needed = -(-sum(source.wanted for source in self.sources) // self.capacity)
        return len(self.pods) == self.replicas == needed

    @property
    def is_satisfied(self) -> bool:
        """Whether every source has exactly the vreplicas that it wants, on Pods that run."""
        running = {pod.name for pod in self.pods if pod.state == "Running"}
        return all(
            source.placed_count == source.wanted and source.placements.keys() <= running for source in self.sources
        )

    @property
    def is_within_capacity(self) -> bool:
        return all(sum(self.vreplicas_on(pod.name).values()) <= self.capacity for pod in self.pods)

    @property
    def tasks_by_node(self) -> dict[str, int]:
        """Number of plain Pods on each node that has any, by the node's name."""
        return dict(sorted(Counter(task.node for task in self.tasks if task.node).items()))

    def task(self, name: str) -> DemoPlainPod | None:
        return next((task for task in self.tasks if task.name == name), None)

    def __str__(self) -> str:
        """Describe the scene in one line, for errors."""
        sources = ", ".join(f"{s.name} {s.placed_count}/{s.wanted} on {dict(s.placements)}" for s in self.sources)
        pods = ", ".join(f"{pod.name} {pod.state}" for pod in self.pods)
        waiting = [task for task in self.tasks if not task.node]
        tasks = f"{self.tasks_by_node}, {len(waiting)} waiting {[task.reason for task in waiting[:3]]}"
        return (
            f"replicas {self.replicas}; pods: {pods or 'none'}; sources: {sources or 'none'}; tasks: {tasks}; "
            f"leader: {self.leader}"
        )
