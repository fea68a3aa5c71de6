"""Results cached per class of equal Pods, and updated where nodes have changed.

Equal Pods (one template) filter and score alike. Results that depend only on the nodes are cached for many classes
together (`situate.framework.class_cache.static_scores`). The other results depend on the load of a node and stay valid
until the load changes. The next Pod of the class therefore evaluates only the nodes in the change log.

The evaluation uses the plugins' evaluators (`situate.framework.snapshot.derived_columns`) or the plugins themselves. A
board evaluates many classes together (`situate.framework.class_cache.score_board`). Plugins that read more than the
node (`Reads.CLUSTER`) are not cached: `situate.framework.engine.choose_node` evaluates them over all nodes each time.

The results are those of the plain path in `situate.framework.cycle.cycle`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from situate.framework.class_cache.pod_class import LoadFilter, LoadScore, PodClass
from situate.framework.class_cache.resource_scorers import NarrowScores, ResourceScorer
from situate.framework.class_cache.score_board import ScoreBoards
from situate.framework.class_cache.static_scores import StaticScores, StaticScoresCache, Totals
from situate.framework.cycle.cycle import PluginFailed, call, check_scores
from situate.framework.plugin_api.plugin import NeedsPlugin, PreScorePlugin, Reads, reads
from situate.framework.pod.pods import PodInfo, PodTemplate
from situate.framework.profile.profile import Profile, WeightedPlugin
from situate.framework.results.status import Code
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.derived_columns import (
    SKIPPED_EVALUATOR,
    ColumnDefinition,
    ColumnEvaluator,
    ColumnFilter,
    ColumnScore,
    Load,
    Numbers,
)
from situate.framework.snapshot.snapshot import Snapshot

INFEASIBLE: Final = -1
"""The total of a node that passes the static filters and fails a load filter. Any negative total means infeasible."""

_REBUILD_SHARE: Final = 10
"""If more than one node in this number changed, a full evaluation is cheaper than one of selected rows."""
_CACHED_NODES_LIMIT: Final = 2**27
"""Number of nodes in all classes together at which all classes are dropped.

Each node takes 2 bytes, and 1 more if the class has a mask.
"""
_CACHED_CLASSES_MINIMUM: Final = 128
"""Number of classes that are cached however many nodes there are."""
_TRIES: Final = 8
"""Number of nodes whose bound may exceed the exact total before the caller must evaluate all nodes exactly."""
_SEEN_TEMPLATES_LIMIT: Final = 2**16
"""Number of templates seen once at which they are forgotten."""


class _EvaluatedNodes:
    """All nodes or some of them, during one evaluation."""

    __slots__ = ("_numbers", "_view", "rows", "snapshot")

    def __init__(self, snapshot: Snapshot, rows: Indices | None) -> None:
        self.snapshot = snapshot
        self.rows = rows
        self._numbers: dict[Hashable, Numbers] = {}
        self._view: Snapshot | None = None

    def numbers(self, derived: ColumnDefinition) -> Numbers:
        found = self._numbers.get(derived.key)
        if found is None:
            found = self.snapshot.derived_columns(derived)
            if self.rows is not None:
                found = found.take(self.rows, axis=1)
            self._numbers[derived.key] = found
        return found

    @property
    def view(self) -> Snapshot:
        if self._view is None:
            self._view = self.snapshot if self.rows is None else self.snapshot.select_nodes(self.rows)
        return self._view

    def take_totals(self, totals: Totals) -> Totals:
        """Return a copy of the entries of these nodes."""
        return totals.copy() if self.rows is None else totals.take(self.rows)


class PodClassCache:
    """The classes of one profile; mutable."""

    def __init__(self, profile: Profile, *, evaluators: bool) -> None:
        self._static_scores = StaticScoresCache(profile)
        self._filters = tuple(
            (plugin, plugin if evaluators and isinstance(plugin, ColumnFilter) else None)
            for plugin in profile.filter
            if reads(plugin) is Reads.LOAD
        )
        self._scores = tuple(
            (each, each.plugin if evaluators and isinstance(each.plugin, ColumnScore) else None)
            for each in profile.score
            if reads(each.plugin) is Reads.LOAD
        )
        self._pre_scores: dict[str, PreScorePlugin] = {
            plugin.name: plugin for plugin in profile.pre_score if reads(plugin) is Reads.LOAD
        }
        self._fits = any(isinstance(plugin, NeedsPlugin) for plugin, _ in self._filters)
        """Whether feasible nodes always have free capacity for the Pod's request."""
        self._score_boards: ScoreBoards | None = None
        if evaluators and self._static_scores.dtype is np.int16:
            self._score_boards = ScoreBoards(
                [plugin for plugin, _ in self._filters], [each for each, _ in self._scores]
            )
        self._known: dict[int, tuple[PodTemplate, PodClass]] = {}
        self._seen: dict[int, PodTemplate] = {}

    def current_class(self, pod: PodInfo, snapshot: Snapshot) -> PodClass | None:
        """Return the up-to-date class.

        None if a plugin rejects the whole class or fails. The plain path then produces the reasons.
        """
        found = self._known.get(id(pod.template))
        if found is not None:
            known = found[1]
            if known.table is snapshot.nodes and known.lineage is snapshot.lineage:
                if known.board is not None:
                    if known.board.catch_up(snapshot):
                        known.settle_board_changes(pod)
                        return known
                elif (changed := snapshot.rows_changed_since(known.position)) is not None:
                    if changed:
                        self._evaluate_changed_nodes(known, pod, snapshot, changed)
                    return known
        try:
            learned = self._create_class(pod, snapshot)
        except PluginFailed:
            return None  # on the plain path other plugins may leave no nodes for this one
        if learned is not None:
            self._cache_class(pod.template, learned, snapshot)
        return learned

    def best_node_without_class(self, pod: PodInfo, snapshot: Snapshot) -> int | None:
        """Return the first of the best nodes for a Pod whose template is new; None if only `of` can decide.

        Nothing is cached. The scorer returns an upper bound for every node, and the exact total of the node with the
        best bound. A total below its bound replaces the bound, and the next best node is evaluated.
        """
        template = pod.template
        if self._score_boards is None or id(template) in self._seen or id(template) in self._known:
            return None
        static = self._static_scores.scores_for(pod, snapshot)
        scorer = None if static is None else self._score_boards.resource_scorer(static, snapshot.nodes)
        asked = None if scorer is None else scorer.requests_of(template)
        if static is None or scorer is None or asked is None:
            return None
        self._record_template(template)
        load, settled, numbers = snapshot.load, static.settled, snapshot.derived_columns(scorer.derived)
        bounds = scorer.upper_bounds(numbers, asked, settled)
        struck = False  # full nodes are mostly not among the best, so they are not searched for at first
        if not _has_feasible_extremes(static, bounds, scorer, load, asked):
            scorer.lower_refused_bounds(numbers, asked, bounds)
            struck = True
            if not _has_feasible_extremes(static, bounds, scorer, load, asked):
                return None
        for _ in range(_TRIES):
            row = int(bounds.argmax())
            bound = bounds.item(row)
            if bound < 0:
                return None
            total = scorer.total(load, row, asked)
            if total >= 0:
                total += settled.item(row)
                if total == bound:
                    return row
            elif not struck:
                scorer.lower_refused_bounds(numbers, asked, bounds)
                struck = True
            bounds[row] = total
        return None

    def _record_template(self, template: PodTemplate) -> None:
        if len(self._seen) >= _SEEN_TEMPLATES_LIMIT:
            self._seen.clear()
        self._seen[id(template)] = template

    def _cache_class(self, template: PodTemplate, learned: PodClass, snapshot: Snapshot) -> None:
        """Cache a class from its second Pod on."""
        if id(template) not in self._seen and id(template) not in self._known:
            self._record_template(template)
            return
        if len(self._known) >= max(_CACHED_CLASSES_MINIMUM, _CACHED_NODES_LIMIT // max(snapshot.count, 1)):
            self._known.clear()
            if self._score_boards is not None:
                self._score_boards.clear()
        self._known[id(template)] = (template, learned)
        if self._score_boards is not None:
            self._score_boards.assign_board(learned, template, snapshot)

    def _create_class(self, pod: PodInfo, snapshot: Snapshot) -> PodClass | None:
        static = self._static_scores.scores_for(pod, snapshot)
        if static is None:
            return None
        template, nodes = pod.template, snapshot.nodes
        filters: list[LoadFilter] = [
            (plugin, None if gauged is None else call(plugin, "Filter", gauged.filter_evaluator, template, nodes))
            for plugin, gauged in self._filters
            if plugin.name not in static.unfiltered
        ]
        scores: list[LoadScore] = []
        states: dict[str, Any] = {}
        for weighted, scorer in self._scores:
            evaluator = (
                None if scorer is None else call(weighted.plugin, "Score", scorer.score_evaluator, template, nodes)
            )
            if evaluator is not None and evaluator.where_it_fits and not self._fits:
                evaluator = None
            if evaluator is None and not self._run_pre_score(weighted.name, static, states, pod, snapshot):
                continue
            if evaluator is not SKIPPED_EVALUATOR:
                scores.append((weighted, evaluator))
        known = PodClass(snapshot, static, filters, scores, states)
        self._evaluate_all_nodes(known, pod, snapshot)
        return known

    def _run_pre_score(
        self, name: str, static: StaticScores, states: dict[str, Any], pod: PodInfo, snapshot: Snapshot
    ) -> bool:
        """Run a plugin's PreScore, if it has one; return False if PreScore skips the Pod."""
        plugin = self._pre_scores.get(name)
        if plugin is not None and name not in states:
            prepared = call(plugin, "PreScore", plugin.pre_score, static.states.get(name), pod, snapshot)
            if prepared.code is Code.SKIP:
                return False
            states[name] = prepared.state
        return True

    def _evaluate_all_nodes(self, known: PodClass, pod: PodInfo, snapshot: Snapshot) -> None:
        known.settled, known.extremes = known.static_scores.settled, None
        known.total, full = self._totals(known, pod, _EvaluatedNodes(snapshot, None))
        known.maxima = None
        known.count = int(np.count_nonzero(known.total >= 0)) if full else known.static_scores.count
        known.settle(pod, more=True)

    def _evaluate_changed_nodes(self, known: PodClass, pod: PodInfo, snapshot: Snapshot, changed: list[int]) -> None:
        """Evaluate the nodes again that Pods have joined or left."""
        known.position = snapshot.log_position
        rows: Indices = np.array(changed if len(changed) == 1 else list(set(changed)), dtype=np.intp)
        if len(rows) * _REBUILD_SHARE > snapshot.count:
            self._evaluate_all_nodes(known, pod, snapshot)
            return
        before = known.total.take(rows)
        now, _ = self._totals(known, pod, _EvaluatedNodes(snapshot, rows))
        known.total[rows] = now
        if known.maxima is not None:
            known.maxima.record_change(rows, now)
        if np.count_nonzero((before ^ now) < 0):
            more = int(np.count_nonzero(now >= 0)) - int(np.count_nonzero(before >= 0))
            known.count += more
            known.settle(pod, more=bool(np.count_nonzero((before < 0) & (now >= 0))))

    def _totals(self, known: PodClass, pod: PodInfo, look: _EvaluatedNodes) -> tuple[Totals, bool]:
        """Return the totals of these nodes, and whether one of them is too full for the Pod."""
        total = look.take_totals(known.settled)
        for weighted, evaluator in known.scores:
            if evaluator is None:
                state = known.load_states.get(weighted.name)
                _add_weighted(
                    total, _plugin_scores(weighted, known.static_scores, state, pod, look.view), weighted.weight
                )
            else:
                scores = call(weighted.plugin, "Score", _evaluate_columns, evaluator, look)
                total += scores if weighted.weight == 1 else scores * weighted.weight
        passes: Mask | None = None
        for plugin, evaluator in known.filters:
            if evaluator is not None:
                passing: Mask = call(plugin, "Filter", _evaluate_columns, evaluator, look)
            else:
                state = known.static_scores.states.get(plugin.name)
                passing = call(plugin, "Filter", plugin.filter, state, pod, look.view).passes
            passes = passing if passes is None else passes & passing
        full = passes is not None and int(np.count_nonzero(passes)) < len(passes)
        if passes is not None and full:
            total[~passes] = INFEASIBLE
        return total, full

    def totals(self, known: PodClass, pod: PodInfo, view: Snapshot, where: Indices) -> Totals:
        """Return the totals of the nodes at `where`, with their load from `view` and all other nodes unchanged."""
        static = known.static_scores
        total = known.settled.take(where)
        for weighted, _ in known.scores:
            if self._run_pre_score(weighted.name, static, known.load_states, pod, view):
                state = known.load_states.get(weighted.name)
                _add_weighted(total, _plugin_scores(weighted, static, state, pod, view), weighted.weight)
        for plugin, _ in known.filters:
            verdict = call(plugin, "Filter", plugin.filter, static.states.get(plugin.name), pod, view)
            total[~verdict.passes] = INFEASIBLE
        return total


def _has_feasible_extremes(
    static: StaticScores, bounds: NarrowScores, scorer: ResourceScorer, load: Load, asked: Any
) -> bool:
    """Return whether feasible nodes have the lowest and the highest of the raw static scores."""
    for each in static.varied:
        if not each.extremes_are_feasible(bounds, 0):
            return False
        for row in each.extreme_nodes():
            if not scorer.has_capacity(load, row, asked):
                return False  # `has_capacity` is exact; the bounds may miss a very small shortage
    return True


def _evaluate_columns(evaluator: ColumnEvaluator, look: _EvaluatedNodes) -> NDArray[Any]:
    return evaluator.read(look.numbers(evaluator.derived))


def _plugin_scores(
    weighted: WeightedPlugin, static: StaticScores, state: Any, pod: PodInfo, view: Snapshot
) -> NDArray[np.int64]:
    """Return the plugin's own scores. `state` is that of PreScore, or None."""
    given = static.states.get(weighted.name) if state is None else state
    scores: NDArray[np.int64] = call(weighted.plugin, "Score", weighted.plugin.score, given, pod, view)
    check_scores(weighted.name, scores)
    return scores


def _add_weighted(total: Totals, scores: NDArray[np.int64], weight: int) -> None:
    """Add in place. The sums fit the type that the static scores have chosen."""
    np.add(total, scores if weight == 1 else scores * weight, out=total, casting="unsafe")
