"""Whether a pod would find a place on nodes of a capacity (3.7, B19, B26).

`Room` is what deciding asks; who answers is not its business: the framework's filters over a snapshot in the live
controller, plain slots in simulations.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from situate.spot.model import Capacity, PodFacts


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

        `without` is a pod that is thought away; `pools` are the only ones that are asked about, None for all.
        """
        ...
