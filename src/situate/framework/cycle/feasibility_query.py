"""The feasible nodes of one Pod on one snapshot, which may be a changed one. Plugins call this through their handle.

`situate.framework.explain.what_if` does the same for the Pods of a whole queue.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from situate.framework.cycle.cycle import NO_NODES, Feasibility, Nominations, find_feasible, score
from situate.framework.cycle.node_sampling import best
from situate.framework.plugin_api.plugin import Diagnosis, Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import Profile
from situate.framework.results.verdict import Indices
from situate.framework.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The feasible nodes of one Pod on one snapshot."""

    snapshot: Snapshot
    feasible: Indices
    """Indices of the snapshot."""
    totals: Scores
    """(feasible,): weighted sums over the plugins."""
    diagnosis: Diagnosis
    """The reasons why the other nodes are infeasible."""

    @property
    def node(self) -> str:
        """The first of the best nodes; empty if none is feasible."""
        return self.snapshot.name(int(self.feasible[best(self.totals)])) if len(self.feasible) else ""


def answer(profile: Profile, pod: PodInfo, snapshot: Snapshot, nominations: Nominations | None = None) -> Answer:
    """Run Filter and Score over all nodes of any snapshot; `PluginFailed` if a plugin fails.

    `nominations` are other Pods of at least this Pod's priority, by the index of their nominated node.
    """
    none = np.zeros(0, dtype=np.intp)
    if not snapshot.count:
        return Answer(snapshot, none, np.zeros(0, dtype=np.int64), Diagnosis(snapshot, status=NO_NODES))
    found: Feasibility = find_feasible(profile, pod, snapshot, nominations)
    feasible = np.flatnonzero(found.passes)
    totals = score(profile, pod, found, feasible) if len(feasible) else np.zeros(0, dtype=np.int64)
    return Answer(snapshot, feasible, totals, found.diagnosis())
