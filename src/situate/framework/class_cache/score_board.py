"""Totals of many classes, updated together.

If Pods of many kinds arrive in turn, each kind finds as many changed nodes as there are kinds. Evaluating one changed
node for all kinds takes as many operations as evaluating all these nodes for one kind, but happens only once. A Pod
thus costs the rescoring of one node. A scorer evaluates a node for all kinds
(`situate.framework.class_cache.resource_scorers`).

The totals of the classes are the rows of one array, so a node is a column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from situate.framework.class_cache.pod_class import PodClass
from situate.framework.class_cache.resource_scorers import (
    NO_CAPACITY,
    NarrowScores,
    ResourceScorer,
    ResourceScorerPlugin,
    TemplatesScorer,
)
from situate.framework.class_cache.running_maximum import BLOCK, LONG
from situate.framework.class_cache.static_scores import StaticScores
from situate.framework.cycle.cycle import call
from situate.framework.plugin_api.plugin import FilterPlugin
from situate.framework.pod.pods import PodTemplate
from situate.framework.profile.profile import WeightedPlugin
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot

CLASSES_PER_BOARD: Final = 128
"""Maximum number of classes of one board."""
_SHARE: Final = 10
"""If more than one node in this number changed, learning the requested classes again is cheaper."""

_BOARDS_LIMIT: Final = 16
"""Maximum number of boards."""
_STALE_CHANGES: Final = 2**10
"""Number of changes that a board has missed at which its members count as unused."""


class ScoreBoards:
    """The boards of one profile, and the scorers of its plugins; mutable."""

    def __init__(self, filters: Sequence[FilterPlugin], scores: Sequence[WeightedPlugin]) -> None:
        """Take all plugins that read amounts on a node."""
        self._filters = filters
        self._scores = scores
        plugins = (*filters, *(each.plugin for each in scores))
        self._scorer_plugin = next((plugin for plugin in plugins if isinstance(plugin, ResourceScorerPlugin)), None)
        self._nodes: NodeTable | None = None
        self._lineage: object = None
        self._scorers: dict[frozenset[str], ResourceScorer | None] = {}
        """On `_nodes`; by the set of filters that skip the Pods."""
        self._boards: list[ScoreBoard] = []
        """On `_nodes`, for snapshots of `_lineage`."""

    def resource_scorer(self, static: StaticScores, nodes: NodeTable) -> ResourceScorer | None:
        """Return the scorer for Pods with these static scores; None if there is none."""
        if self._nodes is not nodes:
            self._nodes = nodes
            self._scorers.clear()
            self._boards.clear()
        unfiltered = static.unfiltered
        if unfiltered not in self._scorers:
            filters = [plugin for plugin in self._filters if plugin.name not in unfiltered]
            plugin, found = self._scorer_plugin, None
            if plugin is not None:
                found = call(plugin, "Score", plugin.resource_scorer, filters, self._scores, nodes)
            self._scorers[unfiltered] = found
        return self._scorers[unfiltered]

    def assign_board(self, known: PodClass, template: PodTemplate, snapshot: Snapshot) -> None:
        """Let a board update the class from now on, if there is a scorer and a board with a free row.

        The class must be up to date.
        """
        scorer = self.resource_scorer(known.static_scores, snapshot.nodes)
        asked = None if scorer is None else scorer.requests_of(template)
        board = None if scorer is None or asked is None else self._board_with_free_row(scorer, snapshot)
        if board is not None:
            board.add_class(known, asked)

    def clear(self) -> None:
        """Drop all boards, after the caller has dropped all classes."""
        self._boards.clear()

    def _board_with_free_row(self, scorer: ResourceScorer, snapshot: Snapshot) -> ScoreBoard | None:
        """Return a board with a free row, its members up to date; None if there is none."""
        if self._lineage is not snapshot.lineage:
            self._lineage = snapshot.lineage
            self._boards.clear()
        for board in self._boards:
            if board.resource_scorer is scorer and not board.full:
                board.catch_up(snapshot)
                return board
        if len(self._boards) < _BOARDS_LIMIT:
            self._boards.append(ScoreBoard(scorer, snapshot.count))
            return self._boards[-1]
        oldest = min(self._boards, key=lambda board: board.position)
        if oldest.resource_scorer is not scorer or snapshot.log_position - oldest.position < _STALE_CHANGES:
            return None
        oldest.forget()
        return oldest


class ScoreBoard:
    """The classes of one scorer, and so of one node table; mutable."""

    def __init__(self, scorer: ResourceScorer, nodes: int) -> None:
        self.resource_scorer = scorer
        self.position = 0
        """The position in the change log up to which the members are up to date."""
        self._members: list[PodClass] = []
        self._requests: list[Any] = []
        # rows that were never written take no memory
        self._totals: NarrowScores = np.empty((CLASSES_PER_BOARD, nodes), np.int16)
        self._bounds: NarrowScores | None = (
            np.empty((CLASSES_PER_BOARD, -(-nodes // BLOCK)), np.int16) if nodes >= LONG else None
        )
        """(classes, blocks): the bounds of their `RunningMaximum`."""
        self._refusing: Mask = np.zeros(nodes, np.bool_)
        """(nodes,): whether a member had a negative total at the last evaluation."""
        self._templates_scorer: TemplatesScorer | None = None
        """None if the members have changed since."""
        self._settled: list[NarrowScores] | None = None
        """The distinct settled totals of the members; None if those of a member have changed since."""
        self._places: Indices | None = None
        """The index in `_settled` for each member; None if all share one."""
        self._here: NarrowScores = np.empty(CLASSES_PER_BOARD, np.int16)
        """The entries of `_settled` for one row."""
        self._own: NarrowScores = np.empty(CLASSES_PER_BOARD, np.int16)
        """The entry of each member for that row."""

    @property
    def full(self) -> bool:
        return len(self._members) == CLASSES_PER_BOARD

    def add_class(self, known: PodClass, asked: Any) -> None:
        """Let the board update the class from now on. The class and the members must be up to date now."""
        place = len(self._members)
        self._totals[place] = known.total
        known.total = self._totals[place]
        known.board = self
        known.bounds = None if self._bounds is None else self._bounds[place]
        known.maxima = None
        self._members.append(known)
        self._requests.append(asked)
        self._refusing |= known.total < 0
        self.position = known.position
        self._templates_scorer = self._settled = None

    def catch_up(self, snapshot: Snapshot) -> bool:
        """Update the members. If that is not possible, drop them and return False."""
        if not self._members:
            return True
        changed = snapshot.rows_changed_since(self.position)
        if changed is None:
            self.forget()
            return False
        if not changed:
            return True
        self.position += len(changed)
        rows: list[int] = changed
        if len(changed) > 1:
            rows = sorted(set(changed))
            if len(rows) * _SHARE > self._totals.shape[1]:
                self.forget()
                return False
        if self._templates_scorer is None:
            self._templates_scorer = self.resource_scorer.scorer_for_templates(self._requests)
        now, passes = self._templates_scorer.scores_at(snapshot.load, rows)
        if len(rows) == 1:
            self._write_one(rows[0], now[:, 0], None if passes is None else passes[:, 0])
        else:
            self._write(rows, now, passes)
        return True

    def invalidate_settled_totals(self) -> None:
        """Record that a member has new settled totals."""
        self._settled = None

    def forget(self) -> None:
        """Remove all members. Each of these classes must be learned again."""
        for member in self._members:
            member.lineage = None
        self._members.clear()
        self._requests.clear()
        self._refusing[:] = False
        self._templates_scorer = self._settled = None

    def _write_one(self, row: int, now: NarrowScores, passes: Mask | None) -> None:
        """Run `_write` for a single row, the usual case."""
        settled = self._settled or self._arrange_settled()
        here, own = self._here, self._own[: len(now)]
        if self._places is None:
            own.fill(settled[0].item(row))
        else:
            for place, each in enumerate(settled):
                here[place] = each.item(row)
            here.take(self._places, out=own, mode="clip")  # indices are valid; `clip` needs no buffer
        np.add(now, own, out=now)
        column = self._totals[: len(now), row]
        if passes is not None or self._refusing.item(row):
            if passes is not None:
                now[~passes] = NO_CAPACITY
            self._report_feasibility(column.reshape(-1, 1), now.reshape(-1, 1))
            self._refusing[row] = np.count_nonzero(now < 0)
        column[:] = now
        if self._bounds is not None:
            self._raise_bounds(row, now)

    def _write(self, rows: list[int], now: NarrowScores, passes: Mask | None) -> None:
        settled = self._settled or self._arrange_settled()
        if self._places is None:
            now += settled[0].take(rows)
        else:
            now += np.array([each.take(rows) for each in settled]).take(self._places, axis=0)
        if passes is not None:
            now[~passes] = NO_CAPACITY
        totals = self._totals[: len(now)]
        if passes is not None or self._refusing.take(rows).any():
            self._report_feasibility(totals.take(rows, axis=1), now)
            self._refusing[rows] = (now < 0).any(axis=0)
        totals[:, rows] = now
        if self._bounds is not None:
            for place, row in enumerate(rows):
                self._raise_bounds(row, now[:, place])

    def _raise_bounds(self, row: int, now: NarrowScores) -> None:
        assert self._bounds is not None
        block = self._bounds[: len(now), row // BLOCK]
        np.maximum(block, now, out=block)

    def _report_feasibility(self, before: NarrowScores, now: NarrowScores) -> None:
        """Report changed feasibility, (members, rows), to each member concerned."""
        for place in np.flatnonzero(((before ^ now) < 0).any(axis=1)).tolist():
            some = before[place] < 0, now[place] < 0
            self._members[place].record_feasibility_change(
                int(np.count_nonzero(some[0])) - int(np.count_nonzero(some[1])), more=bool((some[0] & ~some[1]).any())
            )

    def _arrange_settled(self) -> list[NarrowScores]:
        settled = {id(member.settled): member.settled for member in self._members}
        self._settled = list(settled.values())
        self._places = None
        if len(settled) > 1:
            place = {identity: place for place, identity in enumerate(settled)}
            self._places = np.array([place[id(member.settled)] for member in self._members], dtype=np.intp)
        return self._settled
