"""Cached results for equal Pods, per node.

`situate.framework.class_cache.pod_class_cache` updates each class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from situate.framework.class_cache.nominated_conflicts import NominatedConflicts
from situate.framework.class_cache.running_maximum import LONG, RunningMaximum
from situate.framework.class_cache.static_scores import StaticScores, Totals
from situate.framework.plugin_api.plugin import FilterPlugin
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import WeightedPlugin
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.derived_columns import ColumnEvaluator
from situate.framework.snapshot.node_subset import NodeSubset, NodeSubsets
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from situate.framework.class_cache.score_board import ScoreBoard

LoadFilter = tuple[FilterPlugin, ColumnEvaluator | None]
"""A filter that reads the load of a node, and its evaluator for Pods of one template."""
LoadScore = tuple[WeightedPlugin, ColumnEvaluator | None]
"""A score that reads the load of a node, and its evaluator for Pods of one template."""


class PodClass:
    """Cached results per node for Pods of one template, as of `position` in the change log."""

    __slots__ = (
        "_feasible",
        "_more",
        "_narrowed",
        "_passes",
        "_unsettled",
        "board",
        "bounds",
        "count",
        "crowded",
        "extremes",
        "filters",
        "lineage",
        "load_states",
        "maxima",
        "position",
        "scores",
        "settled",
        "static_scores",
        "table",
        "total",
    )

    def __init__(
        self,
        snapshot: Snapshot,
        static: StaticScores,
        filters: Sequence[LoadFilter],
        scores: Sequence[LoadScore],
        load_states: dict[str, Any],
    ) -> None:
        self.table: NodeTable = snapshot.nodes
        self.lineage: object = snapshot.lineage
        self.position = snapshot.log_position
        self.static_scores = static
        self.filters = filters
        self.scores = scores
        self.load_states = load_states
        """The PreScore states of the plugins of `scores` whose PreScore ran."""
        self.settled: Totals = static.settled
        """(nodes,): the part of `total` that depends only on the nodes; valid where a node is feasible."""
        self.extremes: tuple[tuple[int, int] | None, ...] | None = None
        """The extremes of the varied static scores among feasible nodes, if `settled` is the class's own array."""
        self.total: Totals = static.settled
        """(nodes,): the weighted sum of all local scores; negative where a local filter refuses."""
        self.count = 0
        """The number of feasible nodes."""
        self.maxima: RunningMaximum | None = None
        """The maxima of `total`, if `total` is long."""
        self.bounds: Totals | None = None
        """The board's storage for `maxima`."""
        self.board: ScoreBoard | None = None
        """The board that updates this class together with others. `position` is then unused."""
        self._unsettled = self._more = False
        """Whether the board has changed the set of feasible nodes, and whether nodes became feasible."""
        self.crowded: NominatedConflicts | None = None
        """The result of the last check for nominated Pods."""
        self._passes: Mask | None = None
        self._feasible: NodeSubset | None = None
        self._narrowed: tuple[bytes, NodeSubset] | None = None

    def best_node(self) -> int:
        """Return the first node with the highest total."""
        if self.maxima is not None:
            return self.maxima.first_maximum(self.total)
        if len(self.total) < LONG:
            return int(self.total.argmax())
        self.maxima = RunningMaximum(self.total, self.bounds)
        return self.maxima.first_maximum(self.total)

    @property
    def states(self) -> dict[str, Any]:
        """The states of the local plugins, by name."""
        return {**self.static_scores.states, **self.load_states}

    @property
    def passes(self) -> Mask:
        """(nodes,): whether all local filters pass."""
        if self._passes is None:
            self._passes = self.total >= 0
        return self._passes

    @property
    def feasible(self) -> NodeSubset:
        """The nodes where all local filters pass."""
        if self._feasible is None:
            self._feasible = self.table.plan(("parts",), NodeSubsets).subset_of(self.passes)
        return self._feasible

    def nodes_in_mask(self, passes: Mask) -> NodeSubset:
        """Return the nodes of this mask, which other filters have narrowed.

        The last part is cached, because consecutive Pods mostly have the same mask.
        """
        if passes is self._passes:
            return self.feasible
        last, key = self._narrowed, passes.tobytes()
        if last is None or last[0] != key:
            last = self._narrowed = key, NodeSubset(np.flatnonzero(passes))
        return last[1]

    def totals_among(self, pod: PodInfo, passes: Mask, nodes: Indices) -> Totals:
        """Return (nodes,): the totals if only these nodes are feasible. Scores are then normalized over these nodes."""
        total = self.total.take(nodes)
        if not len(nodes) or (self.extremes is None and self.static_scores.is_valid(passes, 1)):
            return total
        return total - self.settled.take(nodes) + self.static_scores.totals_among(pod, nodes)

    def are_decisive(self, nodes: Indices) -> Mask:
        """Return for each of these nodes whether normalized scores may change once it is no longer feasible."""
        decisive = np.zeros(len(nodes), dtype=np.bool_)
        for place, each in enumerate(self.static_scores.varied):
            extremes = (each.lowest, each.highest) if self.extremes is None else self.extremes[place]
            if extremes is not None and extremes[0] != extremes[1]:
                raw = each.raw.take(nodes)
                decisive |= (raw == extremes[0]) | (raw == extremes[1])
        return decisive

    def record_feasibility_change(self, by: int, *, more: bool) -> None:
        """Record a change by the board: this number of additional feasible nodes.

        `more` means that some nodes became feasible.
        """
        self.count += by
        self._unsettled = True
        self._more |= more

    def settle_board_changes(self, pod: PodInfo) -> None:
        """Call `settle` if the board has changed the set of feasible nodes since."""
        if self._unsettled:
            more, self._unsettled, self._more = self._more, False, False
            self.settle(pod, more=more)

    def settle(self, pod: PodInfo, *, more: bool) -> None:
        """Update normalized scores after a change of the feasible nodes. `more`: some nodes became feasible."""
        self._passes = self._feasible = None
        static = self.static_scores
        if static.is_valid(self.total, 0):
            settled, self.extremes = static.settled, None
        else:
            nodes = np.flatnonzero(self.total >= 0)
            extremes = tuple(each.extremes(nodes) for each in static.varied)
            if not len(nodes) or (extremes == self.extremes and not more):
                return
            settled, self.extremes = static.base.copy(), extremes
            settled[nodes] = static.totals_among(pod, nodes)
        if settled is not self.settled:
            nodes = np.flatnonzero(self.total >= 0)
            self.total[nodes] += settled.take(nodes) - self.settled.take(nodes)
            self.settled = settled
            self.maxima = None
            if self.board is not None:
                self.board.invalidate_settled_totals()
