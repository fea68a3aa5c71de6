"""The scheduling cycle of a Pod that extenders manage: the plain path, with questions in between.

Upstream: schedule_one.go schedulePod, findNodesThatPassExtenders, prioritizeNodes. Pods that no extender manages do not
run through this cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from situate.framework.cycle import cycle
from situate.framework.cycle.cycle import Feasibility
from situate.framework.engine.choose_node import Choice, NodeChooser, TieBreaker
from situate.framework.plugin_api.configuration import Extender
from situate.framework.plugin_api.plugin import Diagnosis, PostFiltered
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption.extenders import (
    EXTENDER,
    ExtenderFailed,
    Steps,
    filter_feasibility,
    filter_nodes,
    scores_of,
)
from situate.framework.preemption.nominations import Nominations
from situate.framework.preemption.post_filter import post_filter_steps
from situate.framework.profile.profile import Profile
from situate.framework.results.verdict import Indices
from situate.framework.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Unplaced:
    """The reasons why no node is feasible, and the result of PostFilter."""

    diagnosis: Diagnosis
    result: PostFiltered | None


@dataclass(frozen=True, slots=True, eq=False)
class ExtenderCycle:
    """A cycle with extenders, and its inputs."""

    profile: Profile
    chooser: NodeChooser
    extenders: tuple[Extender, ...]
    """The extenders that manage the Pod, in the order of the calls."""
    nominations: Nominations
    tie: TieBreaker

    def schedule(self, pod: PodInfo, snapshot: Snapshot) -> Steps[tuple[str, Choice] | Unplaced]:
        """Return a node for the Pod, or the reasons if there is none. `PluginFailed` if a plugin or extender fails."""
        found = yield from self._choose(pod, snapshot)
        if isinstance(found, Choice):
            return snapshot.name(found.index), found
        diagnosis = found.diagnosis()
        result = yield from post_filter_steps(self.profile, found, pod, diagnosis, self.nominations, self.extenders)
        return Unplaced(diagnosis, result)

    def _choose(self, pod: PodInfo, snapshot: Snapshot) -> Steps[Choice | Feasibility]:
        index = snapshot.nodes.index
        others: Mapping[int, Sequence[PodInfo]] = self.nominations.competing_pods(pod, index)
        found = cycle.find_feasible(self.profile, pod, snapshot, others)
        promised = index.get(self.nominations.node_of(pod.uid))
        if (
            promised is not None
            and found.passes[promised]
            and (yield from self._extenders_pass_node(pod, snapshot, promised))
        ):
            return Choice(promised, 1, 1)
        nodes, visited = self.chooser.visit(found)
        nodes, found = yield from filter_feasibility(self.extenders, pod, found, nodes, lambda _: EXTENDER)
        if not len(nodes):
            return found
        if len(nodes) == 1:
            return Choice(int(nodes[0]), visited, 1)
        totals = cycle.score(self.profile, pod, found, nodes)
        for _, added in (yield from scores_of(self.extenders, pod, snapshot, nodes)):
            totals = totals + added
        return Choice(int(nodes[self.tie(totals)]), visited, len(nodes))

    def _extenders_pass_node(self, pod: PodInfo, snapshot: Snapshot, promised: int) -> Steps[bool]:
        """Return whether the extenders pass the Pod's nominated node.

        An extender that fails here is called again with all nodes, as if there were no nomination.
        """
        alone: Indices = np.array([promised], dtype=np.intp)
        try:
            nodes, _ = yield from filter_nodes(self.extenders, pod, snapshot, alone)
        except ExtenderFailed:
            return False
        return len(nodes) > 0
