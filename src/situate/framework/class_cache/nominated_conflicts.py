"""Nominated nodes that have no free capacity with their nominated Pods, cached for a class of Pods.

While the table of nodes stays the same, a filter of local plugins depends only on a node's Pods and nominated Pods. The
result therefore holds while no nomination is added or removed, and no Pod joins or leaves one of these nodes.
Placements on other nodes do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from situate.framework.results.verdict import Indices
from situate.framework.snapshot.nominated_pods import NominatedPods
from situate.framework.snapshot.snapshot import Snapshot

_FEW: Final = 64
"""Up to this number of changed rows, each is checked. With more, the nodes are filtered again."""


@dataclass(slots=True, eq=False)
class NominatedConflicts:
    """Nodes without capacity for Pods of a class that depends only on the load of a node."""

    nominated_pods: NominatedPods
    version: int
    """The version of `nominated_pods`."""
    position: int
    """The position in the snapshot's change log."""
    nodes: Indices

    def is_valid(self, promises: object, snapshot: Snapshot) -> bool:
        """Return whether the result is still valid. The snapshot is of the lineage of the filtered one."""
        if self.nominated_pods is not promises or self.version != self.nominated_pods.version:
            return False
        changed = snapshot.rows_changed_since(self.position)
        if changed is None or len(changed) > _FEW or any(row in self.nominated_pods for row in changed):
            return False
        self.position = snapshot.log_position
        return True
