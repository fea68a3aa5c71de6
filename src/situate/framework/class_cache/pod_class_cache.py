"""Results cached per class of equal Pods, and updated where nodes have changed.

Equal Pods (one template) filter and score alike. Results that depend only on the nodes are cached for many classes
together (`situate.framework.class_cache.static_scores`). The other results depend on the load of a node and stay valid
until the load changes. The next Pod of the class therefore evaluates only the nodes in the change log.

The evaluation uses the plugins' gauges (`situate.framework.snapshot.derived_columns`) or the plugins themselves. A
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
from situate.framework.class_cache.resource_scorers import Meter, Narrow
from situate.framework.class_cache.score_board import Boards
from situate.framework.class_cache.static_scores import Standing, Standings, Totals
from situate.framework.cycle.cycle import PluginFailed, call, check_scores
from situate.framework.plugin_api.plugin import NeedsPlugin, PreScorePlugin, Reads, reads
from situate.framework.pod.pods import PodInfo, PodTemplate
from situate.framework.profile.profile import Profile, Weighted
from situate.framework.results.status import Code
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.derived_columns import NO_SAY, Derived, Gauge, GaugedFilter, GaugedScore, Load, Numbers
from situate.framework.snapshot.snapshot import Snapshot

INFEASIBLE: Final = -1
"""The total of a node that passes the static filters and fails a load filter. Any negative total means infeasible."""

_REBUILD_SHARE: Final = 10
"""If more than one node in this number changed, a full evaluation is cheaper than one of selected rows."""
_KEPT: Final = 2**27
"""Number of nodes in all classes together at which all classes are dropped.

Each node takes 2 bytes, and 1 more if the class has a mask.
"""
_LEAST_KEPT: Final = 128
"""Number of classes that are cached however many nodes there are."""
_TRIES: Final = 8
"""Number of nodes whose bound may exceed the exact total before the caller must evaluate all nodes exactly."""
_SEEN: Final = 2**16
"""Number of templates seen once at which they are forgotten."""


class _Look:
    """All nodes or some of them, during one evaluation."""

    __slots__ = ("_numbers", "_view", "rows", "snapshot")

    def __init__(self, snapshot: Snapshot, rows: Indices | None) -> None:
        self.snapshot = snapshot
        self.rows = rows
        self._numbers: dict[Hashable, Numbers] = {}
        self._view: Snapshot | None = None

    def numbers(self, derived: Derived) -> Numbers:
        found = self._numbers.get(derived.key)
        if found is None:
            found = self.snapshot.derived(derived)
            if self.rows is not None:
                found = found.take(self.rows, axis=1)
            self._numbers[derived.key] = found
        return found

    @property
    def view(self) -> Snapshot:
        if self._view is None:
            self._view = self.snapshot if self.rows is None else self.snapshot.at(self.rows)
        return self._view

    def of(self, totals: Totals) -> Totals:
        """Return a copy of the entries of these nodes."""
        return totals.copy() if self.rows is None else totals.take(self.rows)


class Classes:
    """The classes of one profile; mutable."""

    def __init__(self, profile: Profile, *, gauges: bool) -> None:
        self._standings = Standings(profile)
        self._filters = tuple(
            (plugin, plugin if gauges and isinstance(plugin, GaugedFilter) else None)
            for plugin in profile.filter
            if reads(plugin) is Reads.LOAD
        )
        self._scores = tuple(
            (each, each.plugin if gauges and isinstance(each.plugin, GaugedScore) else None)
            for each in profile.score
            if reads(each.plugin) is Reads.LOAD
        )
        self._pre_scores: dict[str, PreScorePlugin] = {
            plugin.name: plugin for plugin in profile.pre_score if reads(plugin) is Reads.LOAD
        }
        self._fits = any(isinstance(plugin, NeedsPlugin) for plugin, _ in self._filters)
        """Whether feasible nodes always have free capacity for the Pod's request."""
        self._boards: Boards | None = None
        if gauges and self._standings.dtype is np.int16:
            self._boards = Boards([plugin for plugin, _ in self._filters], [each for each, _ in self._scores])
        self._known: dict[int, tuple[PodTemplate, PodClass]] = {}
        self._seen: dict[int, PodTemplate] = {}

    def of(self, pod: PodInfo, snapshot: Snapshot) -> PodClass | None:
        """Return the up-to-date class.

        None if a plugin rejects the whole class or fails. The plain path then produces the reasons.
        """
        found = self._known.get(id(pod.template))
        if found is not None:
            known = found[1]
            if known.table is snapshot.nodes and known.lineage is snapshot.lineage:
                if known.board is not None:
                    if known.board.catch_up(snapshot):
                        known.settled_by_board(pod)
                        return known
                elif (changed := snapshot.changed_since(known.position)) is not None:
                    if changed:
                        self._catch_up(known, pod, snapshot, changed)
                    return known
        try:
            learned = self._learn(pod, snapshot)
        except PluginFailed:
            return None  # on the plain path other plugins may leave no nodes for this one
        if learned is not None:
            self._keep(pod.template, learned, snapshot)
        return learned

    def best_for_stranger(self, pod: PodInfo, snapshot: Snapshot) -> int | None:
        """Return the first of the best nodes for a Pod whose template is new; None if only `of` can decide.

        Nothing is cached. The meter returns an upper bound for every node, and the exact total of the node with the
        best bound. A total below its bound replaces the bound, and the next best node is evaluated.
        """
        template = pod.template
        if self._boards is None or id(template) in self._seen or id(template) in self._known:
            return None
        standing = self._standings.of(pod, snapshot)
        meter = None if standing is None else self._boards.meter(standing, snapshot.nodes)
        asked = None if meter is None else meter.asked(template)
        if standing is None or meter is None or asked is None:
            return None
        self._see(template)
        load, settled, numbers = snapshot.load, standing.settled, snapshot.derived(meter.derived)
        bounds = meter.bounds(numbers, asked, settled)
        struck = False  # full nodes are mostly not among the best, so they are not searched for at first
        if not _hold(standing, bounds, meter, load, asked):
            meter.refuse(numbers, asked, bounds)
            struck = True
            if not _hold(standing, bounds, meter, load, asked):
                return None
        for _ in range(_TRIES):
            row = int(bounds.argmax())
            bound = bounds.item(row)
            if bound < 0:
                return None
            total = meter.total(load, row, asked)
            if total >= 0:
                total += settled.item(row)
                if total == bound:
                    return row
            elif not struck:
                meter.refuse(numbers, asked, bounds)
                struck = True
            bounds[row] = total
        return None

    def _see(self, template: PodTemplate) -> None:
        if len(self._seen) >= _SEEN:
            self._seen.clear()
        self._seen[id(template)] = template

    def _keep(self, template: PodTemplate, learned: PodClass, snapshot: Snapshot) -> None:
        """Cache a class from its second Pod on."""
        if id(template) not in self._seen and id(template) not in self._known:
            self._see(template)
            return
        if len(self._known) >= max(_LEAST_KEPT, _KEPT // max(snapshot.count, 1)):
            self._known.clear()
            if self._boards is not None:
                self._boards.clear()
        self._known[id(template)] = (template, learned)
        if self._boards is not None:
            self._boards.admit(learned, template, snapshot)

    def _learn(self, pod: PodInfo, snapshot: Snapshot) -> PodClass | None:
        standing = self._standings.of(pod, snapshot)
        if standing is None:
            return None
        template, nodes = pod.template, snapshot.nodes
        filters: list[LoadFilter] = [
            (plugin, None if gauged is None else call(plugin, "Filter", gauged.filter_gauge, template, nodes))
            for plugin, gauged in self._filters
            if plugin.name not in standing.unfiltered
        ]
        scores: list[LoadScore] = []
        states: dict[str, Any] = {}
        for weighted, scorer in self._scores:
            gauge = None if scorer is None else call(weighted.plugin, "Score", scorer.score_gauge, template, nodes)
            if gauge is not None and gauge.where_it_fits and not self._fits:
                gauge = None
            if gauge is None and not self._prepared(weighted.name, standing, states, pod, snapshot):
                continue
            if gauge is not NO_SAY:
                scores.append((weighted, gauge))
        known = PodClass(snapshot, standing, filters, scores, states)
        self._look_at_all(known, pod, snapshot)
        return known

    def _prepared(
        self, name: str, standing: Standing, states: dict[str, Any], pod: PodInfo, snapshot: Snapshot
    ) -> bool:
        """Run a plugin's PreScore, if it has one; return False if PreScore skips the Pod."""
        plugin = self._pre_scores.get(name)
        if plugin is not None and name not in states:
            prepared = call(plugin, "PreScore", plugin.pre_score, standing.states.get(name), pod, snapshot)
            if prepared.code is Code.SKIP:
                return False
            states[name] = prepared.state
        return True

    def _look_at_all(self, known: PodClass, pod: PodInfo, snapshot: Snapshot) -> None:
        known.settled, known.extremes = known.standing.settled, None
        known.total, full = self._totals(known, pod, _Look(snapshot, None))
        known.maxima = None
        known.count = int(np.count_nonzero(known.total >= 0)) if full else known.standing.count
        known.settle(pod, more=True)

    def _catch_up(self, known: PodClass, pod: PodInfo, snapshot: Snapshot, changed: list[int]) -> None:
        """Evaluate the nodes again that Pods have joined or left."""
        known.position = snapshot.log_position
        rows: Indices = np.array(changed if len(changed) == 1 else list(set(changed)), dtype=np.intp)
        if len(rows) * _REBUILD_SHARE > snapshot.count:
            self._look_at_all(known, pod, snapshot)
            return
        before = known.total.take(rows)
        now, _ = self._totals(known, pod, _Look(snapshot, rows))
        known.total[rows] = now
        if known.maxima is not None:
            known.maxima.changed(rows, now)
        if np.count_nonzero((before ^ now) < 0):
            more = int(np.count_nonzero(now >= 0)) - int(np.count_nonzero(before >= 0))
            known.count += more
            known.settle(pod, more=bool(np.count_nonzero((before < 0) & (now >= 0))))

    def _totals(self, known: PodClass, pod: PodInfo, look: _Look) -> tuple[Totals, bool]:
        """Return the totals of these nodes, and whether one of them is too full for the Pod."""
        total = look.of(known.settled)
        for weighted, gauge in known.scores:
            if gauge is None:
                state = known.load_states.get(weighted.name)
                _add(total, _scored(weighted, known.standing, state, pod, look.view), weighted.weight)
            else:
                scores = call(weighted.plugin, "Score", _gauged, gauge, look)
                total += scores if weighted.weight == 1 else scores * weighted.weight
        passes: Mask | None = None
        for plugin, gauge in known.filters:
            if gauge is not None:
                passing: Mask = call(plugin, "Filter", _gauged, gauge, look)
            else:
                state = known.standing.states.get(plugin.name)
                passing = call(plugin, "Filter", plugin.filter, state, pod, look.view).passes
            passes = passing if passes is None else passes & passing
        full = passes is not None and int(np.count_nonzero(passes)) < len(passes)
        if passes is not None and full:
            total[~passes] = INFEASIBLE
        return total, full

    def totals(self, known: PodClass, pod: PodInfo, view: Snapshot, where: Indices) -> Totals:
        """Return the totals of the nodes at `where`, with their load from `view` and all other nodes unchanged."""
        standing = known.standing
        total = known.settled.take(where)
        for weighted, _ in known.scores:
            if self._prepared(weighted.name, standing, known.load_states, pod, view):
                state = known.load_states.get(weighted.name)
                _add(total, _scored(weighted, standing, state, pod, view), weighted.weight)
        for plugin, _ in known.filters:
            verdict = call(plugin, "Filter", plugin.filter, standing.states.get(plugin.name), pod, view)
            total[~verdict.passes] = INFEASIBLE
        return total


def _hold(standing: Standing, bounds: Narrow, meter: Meter, load: Load, asked: Any) -> bool:
    """Return whether feasible nodes have the lowest and the highest of the standing's raw scores."""
    for each in standing.varied:
        if not each.holds(bounds, 0):
            return False
        for row in each.witnesses():
            if not meter.has_room(load, row, asked):
                return False  # `has_room` is exact; the bounds may miss a very small shortage
    return True


def _gauged(gauge: Gauge, look: _Look) -> NDArray[Any]:
    return gauge.read(look.numbers(gauge.derived))


def _scored(weighted: Weighted, standing: Standing, state: Any, pod: PodInfo, view: Snapshot) -> NDArray[np.int64]:
    """Return the plugin's own scores. `state` is that of PreScore, or None."""
    given = standing.states.get(weighted.name) if state is None else state
    scores: NDArray[np.int64] = call(weighted.plugin, "Score", weighted.plugin.score, given, pod, view)
    check_scores(weighted.name, scores)
    return scores


def _add(total: Totals, scores: NDArray[np.int64], weight: int) -> None:
    """Add in place. The sums fit the type that the standings have chosen."""
    np.add(total, scores if weight == 1 else scores * weight, out=total, casting="unsafe")
