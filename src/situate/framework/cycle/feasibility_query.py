"""The feasible nodes of one Pod on one snapshot, which may be a changed one. Plugins call this through their handle.

`situate.framework.explain.what_if` does the same for the Pods of a whole queue.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situate.framework.cycle.cycle import NO_NODES, Feasibility, find_feasible, score
from situate.framework.cycle.node_sampling import index_of_best
from situate.framework.plugin_api.plugin import Diagnosis, Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import Profile
from situate.framework.results.verdict import Indices
from situate.framework.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class FeasibilityResult:
    """The feasible nodes of one Pod on one snapshot."""

    snapshot: Snapshot
    feasible: Indices
    """Indices of the snapshot."""
    totals: Scores
    """(feasible,): weighted sums over the plugins."""
    diagnosis: Diagnosis
    """The reasons why the other nodes are infeasible."""

    @property
    def best_node(self) -> str:
        """The first of the best nodes; empty if none is feasible."""
        return self.snapshot.name(int(self.feasible[index_of_best(self.totals)])) if len(self.feasible) else ""


def query_feasibility(profile: Profile, pod: PodInfo, snapshot: Snapshot) -> FeasibilityResult:
    """Run Filter and Score over all nodes of any snapshot; `PluginFailed` if a plugin fails."""
    none = np.zeros(0, dtype=np.intp)
    if not snapshot.count:
        return FeasibilityResult(snapshot, none, np.zeros(0, dtype=np.int64), Diagnosis(snapshot, status=NO_NODES))
    found: Feasibility = find_feasible(profile, pod, snapshot)
    feasible = np.flatnonzero(found.passes)
    totals = score(profile, pod, found, feasible) if len(feasible) else np.zeros(0, dtype=np.int64)
    return FeasibilityResult(snapshot, feasible, totals, found.diagnosis())
