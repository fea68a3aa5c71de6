"""What is known of each node for equal pods: a class of `situate.framework.class_cache.pod_class_cache`, which looks
after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from situate.framework.class_cache.nominated_conflicts import Crowded
from situate.framework.class_cache.running_maximum import LONG, Maxima
from situate.framework.class_cache.static_scores import Standing, Totals
from situate.framework.plugin_api.plugin import FilterPlugin
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import Weighted
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.derived_columns import Gauge
from situate.framework.snapshot.node_subset import Part, Parts
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from situate.framework.class_cache.score_board import Board

LoadFilter = tuple[FilterPlugin, Gauge | None]
"""A filter that looks at what is on a node, and its gauge for pods of one template."""
LoadScore = tuple[Weighted, Gauge | None]
"""A score that looks at what is on a node, and its gauge for pods of one template."""


class PodClass:
    """What is known of each node for pods of one template, as of `position` in the change log."""

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
        "standing",
        "table",
        "total",
    )

    def __init__(
        self,
        snapshot: Snapshot,
        standing: Standing,
        filters: Sequence[LoadFilter],
        scores: Sequence[LoadScore],
        load_states: dict[str, Any],
    ) -> None:
        self.table: NodeTable = snapshot.nodes
        self.lineage: object = snapshot.lineage
        self.position = snapshot.log_position
        self.standing = standing
        self.filters = filters
        self.scores = scores
        self.load_states = load_states
        """What PreScore has answered, of those of `scores` that were asked."""
        self.settled: Totals = standing.settled
        """(nodes,): what the nodes alone decide of `total`; right where a node is feasible."""
        self.extremes: tuple[tuple[int, int] | None, ...] | None = None
        """Of the standing's varied scores among the feasible nodes, if `settled` is the class's own."""
        self.total: Totals = standing.settled
        """(nodes,): all local scores, weighted; negative where a local filter refuses."""
        self.count = 0
        """So many nodes are feasible."""
        self.maxima: Maxima | None = None
        """Of `total`, where it is long."""
        self.bounds: Totals | None = None
        """Where the board keeps what `maxima` needs."""
        self.board: Board | None = None
        """Who brings it up to date with others; then `position` says nothing."""
        self._unsettled = self._more = False
        """Whether the board has found other nodes feasible, and some that were not before."""
        self.crowded: Crowded | None = None
        """What was found when promises had to be heeded last."""
        self._passes: Mask | None = None
        self._feasible: Part | None = None
        self._narrowed: tuple[bytes, Part] | None = None

    def best(self) -> int:
        """The first node with the highest total."""
        if self.maxima is not None:
            return self.maxima.first(self.total)
        if len(self.total) < LONG:
            return int(self.total.argmax())
        self.maxima = Maxima(self.total, self.bounds)
        return self.maxima.first(self.total)

    @property
    def states(self) -> dict[str, Any]:
        """Of the local plugins, by name."""
        return {**self.standing.states, **self.load_states}

    @property
    def passes(self) -> Mask:
        """(nodes,): whether all local filters pass."""
        if self._passes is None:
            self._passes = self.total >= 0
        return self._passes

    @property
    def feasible(self) -> Part:
        """Where all local filters pass."""
        if self._feasible is None:
            self._feasible = self.table.plan(("parts",), Parts).of(self.passes)
        return self._feasible

    def among(self, passes: Mask) -> Part:
        """Where this mask holds as well, which others have narrowed; mostly for the next pod as for the last one."""
        if passes is self._passes:
            return self.feasible
        last, key = self._narrowed, passes.tobytes()
        if last is None or last[0] != key:
            last = self._narrowed = key, Part(np.flatnonzero(passes))
        return last[1]

    def totals_among(self, pod: PodInfo, passes: Mask, nodes: Indices) -> Totals:
        """(nodes,): the totals where only these nodes are feasible, to which normalized scores then relate.

        `nodes` are those of `passes`.
        """
        total = self.total.take(nodes)
        if not len(nodes) or (self.extremes is None and self.standing.holds(passes, 1)):
            return total
        return total - self.settled.take(nodes) + self.standing.settled_among(pod, nodes)

    def decisive(self, nodes: Indices) -> Mask:
        """For each of these nodes, whether normalized scores may change once it will not do any more."""
        decisive = np.zeros(len(nodes), dtype=np.bool_)
        for place, each in enumerate(self.standing.varied):
            extremes = (each.lowest, each.highest) if self.extremes is None else self.extremes[place]
            if extremes is not None and extremes[0] != extremes[1]:
                raw = each.raw.take(nodes)
                decisive |= (raw == extremes[0]) | (raw == extremes[1])
        return decisive

    def feasible_changed(self, by: int, *, more: bool) -> None:
        """The board has found so many more nodes feasible, and with `more` some that were not before."""
        self.count += by
        self._unsettled = True
        self._more |= more

    def settled_by_board(self, pod: PodInfo) -> None:
        """What `settle` does, if the board has found other nodes feasible since."""
        if self._unsettled:
            more, self._unsettled, self._more = self._more, False, False
            self.settle(pod, more=more)

    def settle(self, pod: PodInfo, *, more: bool) -> None:
        """Which nodes are feasible has changed: what relates to the others may have. `more`: some were not before."""
        self._passes = self._feasible = None
        standing = self.standing
        if standing.holds(self.total, 0):
            settled, self.extremes = standing.settled, None
        else:
            nodes = np.flatnonzero(self.total >= 0)
            extremes = tuple(each.extremes(nodes) for each in standing.varied)
            if not len(nodes) or (extremes == self.extremes and not more):
                return
            settled, self.extremes = standing.base.copy(), extremes
            settled[nodes] = standing.settled_among(pod, nodes)
        if settled is not self.settled:
            nodes = np.flatnonzero(self.total >= 0)
            self.total[nodes] += settled.take(nodes) - self.settled.take(nodes)
            self.settled = settled
            self.maxima = None
            if self.board is not None:
                self.board.resettled()
