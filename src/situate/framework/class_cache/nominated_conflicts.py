"""Which of the promised nodes have no room beside the pods that they are promised to, remembered for a class of pods.

What a filter of local plugins says of such a node depends on the pods there, on those that it is promised to, and on
nothing else that changes while the table of nodes stays. So the answer holds as long as no promise is made or taken
back, and no pod comes to one of these nodes or leaves it; where other pods go makes no difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from situate.framework.results.verdict import Indices
from situate.framework.snapshot.nominated_pods import Promised
from situate.framework.snapshot.snapshot import Snapshot

_FEW: Final = 64
"""Changed rows that are looked through; with more of them the nodes are asked about again."""


@dataclass(slots=True, eq=False)
class Crowded:
    """Nodes without room for pods of one class, whom nothing concerns but what is on a node."""

    promises: Promised
    version: int
    """Of the promises."""
    position: int
    """In the change log of the snapshot."""
    nodes: Indices

    def holds(self, promises: object, snapshot: Snapshot) -> bool:
        """Whether that is still so. The snapshot is of the lineage of the one that was asked."""
        if self.promises is not promises or self.version != self.promises.version:
            return False
        changed = snapshot.changed_since(self.position)
        if changed is None or len(changed) > _FEW or any(row in self.promises for row in changed):
            return False
        self.position = snapshot.log_position
        return True
