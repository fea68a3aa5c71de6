"""Where one pod could go on one snapshot, which may have been changed at will: plugins ask this through their handle.

What happens if the pods of a whole queue are decided upon is asked in `situate.framework.explain.what_if`.
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
    """Where one pod could go on one snapshot."""

    snapshot: Snapshot
    feasible: Indices
    """Indices of the snapshot."""
    totals: Scores
    """(feasible,): weighted and summed over the plugins."""
    diagnosis: Diagnosis
    """Why the other nodes will not do."""

    @property
    def node(self) -> str:
        """The first of the best; empty if none will do."""
        return self.snapshot.name(int(self.feasible[best(self.totals)])) if len(self.feasible) else ""


def answer(profile: Profile, pod: PodInfo, snapshot: Snapshot, nominations: Nominations | None = None) -> Answer:
    """Filter and Score over all nodes of any snapshot. `PluginFailed` if a plugin cannot say.

    `nominations`: other pods of at least this one's priority, by the index of the node that they have been promised.
    """
    none = np.zeros(0, dtype=np.intp)
    if not snapshot.count:
        return Answer(snapshot, none, np.zeros(0, dtype=np.int64), Diagnosis(snapshot, status=NO_NODES))
    found: Feasibility = find_feasible(profile, pod, snapshot, nominations)
    feasible = np.flatnonzero(found.passes)
    totals = score(profile, pod, found, feasible) if len(feasible) else np.zeros(0, dtype=np.int64)
    return Answer(snapshot, feasible, totals, found.diagnosis())
