"""Observed state of the chapters on spot: the nodes of ten replicas, and the number that served over time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from situate.cli.demo.spot.objects import FLOOR, REPLICAS


@dataclass(frozen=True, slots=True)
class Replica:
    name: str
    node: str
    """Empty while it waits."""
    pod_class: str
    """Empty if the webhook was not called."""
    is_serving: bool
    """Ready, not terminating, and on an existing node."""
    released: bool
    """Released from its ReplicaSet, until its replacement serves."""


@dataclass(frozen=True, slots=True)
class SpotNode:
    name: str
    capacity: str
    state: str
    """starts, runs, ends, off or gone."""


@dataclass(frozen=True, slots=True)
class SpotScene:
    """State of the cluster at one moment, and its history."""

    workload: str
    replicas: tuple[Replica, ...]
    nodes: tuple[SpotNode, ...]
    """By name."""
    at: float
    """Seconds since the workload's first scene."""
    readiness: tuple[tuple[float, int], ...] = ()
    """Times in seconds, and the number of serving replicas, up to now."""
    marks: tuple[tuple[float, str], ...] = ()
    """Times and names of the story's actions."""
    target: int = REPLICAS
    floor: int = FLOOR

    @property
    def ready_count(self) -> int:
        return sum(replica.is_serving for replica in self.replicas)

    def replicas_on(self, node: str) -> list[Replica]:
        return [replica for replica in self.replicas if replica.node == node]

    def spot_replica_count(self) -> int:
        """Return the number of replicas on spot nodes."""
        spot = {node.name for node in self.nodes if node.capacity == "spot"}
        return sum(replica.node in spot for replica in self.replicas)

    def least_ready_since(self, at: float) -> int:
        """Return the smallest number of serving replicas in any scene since `at`."""
        return min(ready for when, ready in (*self.readiness, (self.at, self.ready_count)) if when >= at)

    def with_history_of(self, before: SpotScene | None) -> SpotScene:
        """Return this scene with the history of an earlier one."""
        earlier = before.readiness if before is not None and before.workload == self.workload else ()
        marks = before.marks if before is not None and before.workload == self.workload else ()
        return replace(self, readiness=(*earlier, (self.at, self.ready_count)), marks=marks)

    def with_mark(self, what: str) -> SpotScene:
        return replace(self, marks=(*self.marks, (self.at, what)))

    def __str__(self) -> str:
        """Describe the scene in one line, for errors."""
        nodes = ", ".join(f"{node.name} ({node.state}) {len(self.replicas_on(node.name))}" for node in self.nodes)
        return f"{self.ready_count} of {len(self.replicas)} Pods ready; {nodes}; {len(self.replicas_on(''))} waiting"
