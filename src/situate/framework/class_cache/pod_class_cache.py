"""Answers kept per class of equal pods, and brought up to date where nodes have changed.

Equal pods (one template) filter and score alike. What the nodes alone decide is kept for many classes together
(`situate.framework.class_cache.static_scores`). The rest changes with what is on a node: it stays true until something
changes there, so for the next pod of the class only the nodes in the change log are looked at again, through the
plugins' gauges (`situate.framework.snapshot.derived_columns`) or the plugins themselves, or by a board for many
classes together (`situate.framework.class_cache.score_board`). Plugins that look beyond the node (`Reads.CLUSTER`)
have no part in this; `situate.framework.engine.choose_node` asks them about all nodes each time.

The answers are those of the plain path in `situate.framework.cycle.cycle`.
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
"""The total of a node that may do, and will not as it is; all negative ones mean that it will not do."""

_REBUILD_SHARE: Final = 10
"""With more than one in so many nodes changed, looking at all of them is cheaper than picking those."""
_KEPT: Final = 2**27
"""Nodes of all classes together before all are learned afresh: 2 bytes each, and 1 where a mask is asked for."""
_LEAST_KEPT: Final = 128
"""Classes that are kept however many nodes there are."""
_TRIES: Final = 8
"""Nodes that may look better from above than they are before all are looked at exactly."""
_SEEN: Final = 2**16
"""Templates that were met once, before those are forgotten."""


class _Look:
    """All nodes or some of them, for the time of one look."""

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
        """A copy of what there is for these nodes."""
        return totals.copy() if self.rows is None else totals.take(self.rows)


class Classes:
    """Of one profile; mutable."""

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
        """Whether feasible nodes have room for what a pod requests."""
        self._boards: Boards | None = None
        if gauges and self._standings.dtype is np.int16:
            self._boards = Boards([plugin for plugin, _ in self._filters], [each for each, _ in self._scores])
        self._known: dict[int, tuple[PodTemplate, PodClass]] = {}
        self._seen: dict[int, PodTemplate] = {}

    def of(self, pod: PodInfo, snapshot: Snapshot) -> PodClass | None:
        """What is true now; None if a plugin rejects the whole class, or fails, which the plain path then explains."""
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
            return None  # with fewer nodes to look at it may not even be asked
        if learned is not None:
            self._keep(pod.template, learned, snapshot)
        return learned

    def best_for_stranger(self, pod: PodInfo, snapshot: Snapshot) -> int | None:
        """The first of the best nodes for a pod whose template is met for the first time; None if only `of` can tell.

        Nothing is kept for the next one. The meter says of all nodes what they are worth at most, and of the best of
        them exactly; one that is worth less is put in its place, and the next best is looked at.
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
        struck = False  # most of the time what is full is not among the best, and need not be looked for
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
        """A class is worth its room once a second pod of it has come."""
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
        """PreScore of a plugin, if it has one; false if the plugin has no say."""
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
        """Looks again at the nodes to which pods came, or from which they went."""
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
        """The totals of these nodes, and whether one of them is too full for the pod."""
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
        """The totals of the nodes at `where` if they were as `view` has them, and all others as they are."""
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
    """Whether the lowest and the highest of the standing's raw scores are those of nodes with room for the pod."""
    for each in standing.varied:
        if not each.holds(bounds, 0):
            return False
        for row in each.witnesses():
            if not meter.has_room(load, row, asked):
                return False  # perhaps by a hair
    return True


def _gauged(gauge: Gauge, look: _Look) -> NDArray[Any]:
    return gauge.read(look.numbers(gauge.derived))


def _scored(weighted: Weighted, standing: Standing, state: Any, pod: PodInfo, view: Snapshot) -> NDArray[np.int64]:
    """What the plugin itself says; `state` is PreScore's, if it has that."""
    given = standing.states.get(weighted.name) if state is None else state
    scores: NDArray[np.int64] = call(weighted.plugin, "Score", weighted.plugin.score, given, pod, view)
    check_scores(weighted.name, scores)
    return scores


def _add(total: Totals, scores: NDArray[np.int64], weight: int) -> None:
    """In place; sums fit the type that the standings have chosen."""
    np.add(total, scores if weight == 1 else scores * weight, out=total, casting="unsafe")
