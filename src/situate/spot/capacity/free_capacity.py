"""Whether a pod would find a place on nodes of a capacity (3.7, B19, B26).

`Room` is what deciding asks; who answers is not its business: the framework's filters over a snapshot in the live
controller, plain slots in simulations. `Places` is what planning asks besides: where the pods would be afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import Protocol

from situate.spot.model.pods_nodes_workloads import Capacity, PodFacts


class Room(Protocol):
    """Answers for nodes that neither end nor are at risk."""

    def fits(
        self,
        pod: PodFacts,
        capacity: Capacity,
        *,
        without: PodFacts | None = None,
        pools: Collection[str] | None = None,
    ) -> bool:
        """Whether a pod like this one, free to choose, would be placed there now.

        `without` is a pod that is thought away; `pools` are the only ones that are asked about, None for all. A place
        that was found for one pod may be kept for it and not be found for others.
        """
        ...

    def beginning(self) -> Generator[None, None, None]:
        """What the first question would have to wait for, in steps of a fraction of a millisecond; none by default."""
        yield from ()


class Places(Room, Protocol):
    """Room that can be asked how it is after a move."""

    def moved(self, pod: PodFacts, uid: str, capacity: Capacity) -> tuple[Places, str]:
        """How it is once the pod is gone and one like it, `uid`, has come.

        With the name of the node of that capacity where it stands then; empty if none would take it.
        """
        ...
