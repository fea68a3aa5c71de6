"""Protocols for free capacity: whether a pod fits on nodes of a capacity type.

Decisions use `FreeCapacity`. Its implementation is the framework's filters over a snapshot in the live controller, and
plain slots in simulations. Plans also use `PlanningCapacity`, which shows the state after a move. Rules: B19, B26.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import Protocol

from situate.spot.model.pods_nodes_workloads import Capacity, PodFacts


class FreeCapacity(Protocol):
    """Answers for nodes that neither end nor are at risk."""

    def fits(
        self,
        pod: PodFacts,
        capacity: Capacity,
        *,
        without: PodFacts | None = None,
        pools: Collection[str] | None = None,
    ) -> bool:
        """Return whether a pod like this one, free to choose, would be placed there now.

        `without` is a pod to ignore; `pools` restricts the pools, None means all. A place found for one pod may be
        reserved for it and then not be found for other pods.
        """
        ...

    def prepare_in_steps(self) -> Generator[None, None, None]:
        """Do the work of the first question in steps of a fraction of a millisecond; no steps by default."""
        yield from ()


class PlanningCapacity(FreeCapacity, Protocol):
    """Free capacity that also shows its state after a move."""

    def after_move(self, pod: PodFacts, uid: str, capacity: Capacity) -> tuple[PlanningCapacity, str]:
        """Return the state after the pod has gone and one like it, `uid`, has come.

        Also return the name of the new pod's node, of that capacity; empty if no node takes it.
        """
        ...
