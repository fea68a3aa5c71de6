"""What the chapters on spot see of the cluster: where ten replicas are, and how many have served over time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from situate.cli.demo.spot.objects import FLOOR, REPLICAS


@dataclass(frozen=True, slots=True)
class Replica:
    name: str
    node: str
    """Empty while it waits."""
    pod_class: str
    """Empty if admission was not asked."""
    serves: bool
    """Ready, not about to end, and on a node that is there."""
    released: bool
    """Out of its ReplicaSet, until its replacement serves."""


@dataclass(frozen=True, slots=True)
class SpotNode:
    name: str
    capacity: str
    state: str
    """What a person would call it: starts, runs, ends, off, gone."""


@dataclass(frozen=True, slots=True)
class SpotScene:
    """Everything at one moment, and what was before."""

    workload: str
    replicas: tuple[Replica, ...]
    nodes: tuple[SpotNode, ...]
    """By name."""
    at: float
    """Seconds since the workload was looked at first."""
    readiness: tuple[tuple[float, int], ...] = ()
    """When, in seconds, and how many served; up to now."""
    marks: tuple[tuple[float, str], ...] = ()
    """What was done, and when."""
    target: int = REPLICAS
    floor: int = FLOOR

    @property
    def ready(self) -> int:
        return sum(replica.serves for replica in self.replicas)

    def on(self, node: str) -> list[Replica]:
        return [replica for replica in self.replicas if replica.node == node]

    def on_spot(self) -> int:
        """Replicas on spot nodes."""
        spot = {node.name for node in self.nodes if node.capacity == "spot"}
        return sum(replica.node in spot for replica in self.replicas)

    def least_since(self, at: float) -> int:
        """Fewest that served at any look since then."""
        return min(ready for when, ready in (*self.readiness, (self.at, self.ready)) if when >= at)

    def after(self, before: SpotScene | None) -> SpotScene:
        """With what was seen before it."""
        earlier = before.readiness if before is not None and before.workload == self.workload else ()
        marks = before.marks if before is not None and before.workload == self.workload else ()
        return replace(self, readiness=(*earlier, (self.at, self.ready)), marks=marks)

    def marked(self, what: str) -> SpotScene:
        return replace(self, marks=(*self.marks, (self.at, what)))
