"""Answers kept per class of equal pods, and brought up to date where nodes have changed.

Equal pods (one template) filter and score alike. What a class has learned of a node stays true until something changes
there, so for the next pod of the class only the nodes in the change log are asked about again. The plugins themselves
are asked, about those nodes alone: nothing is computed in a second way. Plugins that look beyond the node
(`Reads.CLUSTER`) have no part in this; `situate.framework.engine` asks them about all nodes each time.

The answers are those of the plain path in `situate.framework.cycle`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from situate.framework.cycle import PluginFailed, call, check_scores
from situate.framework.nodes import NodeTable
from situate.framework.parts import Part, Parts
from situate.framework.plugin import FilterPlugin, NormalizePlugin, Reads, Scores
from situate.framework.pods import PodInfo, PodTemplate
from situate.framework.profile import Profile, Weighted
from situate.framework.snapshot import Snapshot
from situate.framework.status import Code
from situate.framework.verdict import Indices, Mask

INFEASIBLE: Final = -1
"""The total of a node that will not do."""

_REBUILD_SHARE: Final = 50
"""With more than one in so many nodes changed, asking about all of them is cheaper than picking those."""
_KEPT: Final = 2**22
"""Nodes of all classes together before all are learned afresh: some 20 bytes each."""
_LEAST_KEPT: Final = 128
"""Classes that are kept however many nodes there are."""
_SEEN: Final = 2**16
"""Templates that were met once, before those are forgotten."""
_FEW: Final = 16
"""Nodes that are looked at before all that have an extreme."""


def reads(plugin: object) -> Reads:
    """What the plugin's answers depend on; one that does not say may look at everything."""
    said: Reads = getattr(plugin, "reads", Reads.CLUSTER)
    return said


@dataclass(frozen=True, slots=True, eq=False)
class _Spread:
    """Raw scores that depend on the nodes alone, and what they come to if the extremes are among the feasible nodes."""

    raw: Scores
    lowest: Indices
    highest: Indices
    """Nodes that have the extremes."""
    share: Scores
    """(nodes,): normalized and weighted."""

    @classmethod
    def of(cls, raw: Scores, normalized: Callable[[Scores], Scores]) -> _Spread:
        low, high = int(raw.min(initial=0)), int(raw.max(initial=0))
        return cls(raw, np.flatnonzero(raw == low), np.flatnonzero(raw == high), normalized(raw))

    def holds(self, passes: Mask) -> bool:
        """Whether `share` is right for these feasible nodes."""
        return _any_of(passes, self.lowest) and _any_of(passes, self.highest)


def _any_of(passes: Mask, nodes: Indices) -> bool:
    """Whether one of the nodes is feasible; one of the first mostly is."""
    return bool(passes[nodes[:_FEW]].any() or passes[nodes].any())


@dataclass(slots=True, eq=False)
class _Relative:
    """The scores of a plugin that normalizes: raw, and in proportion to the others."""

    weighted: Weighted
    normalizer: NormalizePlugin
    state: Any
    raw: Scores
    whole: _Spread | None
    """None where pods that come and go change the raw values."""
    share: Scores
    """(nodes,): normalized and weighted; right where the node is feasible."""
    extremes: tuple[int, int] | None = None
    """The lowest and the highest raw value of a feasible node when `share` was worked out."""

    @property
    def changes(self) -> bool:
        """Whether pods that come and go change the raw values."""
        return self.whole is None

    def renew(self, pod: PodInfo, passes: Mask, *, more: bool) -> bool:
        """Works the shares out again if they may have moved; whether it did. `more`: some node was refused before."""
        if self.whole is not None and self.whole.holds(passes):
            moved = self.share is not self.whole.share
            self.share = self.whole.share
            self.extremes = self._extremes_of_all()
            return moved
        extremes = self._extremes(passes)
        if extremes == self.extremes and not more and not self.changes:
            return False
        self.share = np.zeros(len(self.raw), dtype=np.int64)
        if extremes is not None:
            self.share[passes] = self._shares(pod, passes)
        self.extremes = extremes
        return True

    def holds_among(self, passes: Mask) -> bool:
        """Whether the shares are right for fewer nodes than the class has, of which there is at least one."""
        whole = self.whole
        if whole is not None and self.share is whole.share and whole.holds(passes):
            return True
        return self._extremes(passes) == self.extremes

    def among(self, pod: PodInfo, passes: Mask) -> Scores:
        """(feasible,): the shares of these nodes alone; there is at least one."""
        return self._shares(pod, passes)

    def _extremes_of_all(self) -> tuple[int, int]:
        whole = self.whole
        assert whole is not None
        return int(self.raw[whole.lowest[0]]), int(self.raw[whole.highest[0]])

    def _extremes(self, passes: Mask) -> tuple[int, int] | None:
        among = self.raw[passes]
        return (int(among.min()), int(among.max())) if len(among) else None

    def _shares(self, pod: PodInfo, passes: Mask) -> Scores:
        return _normalized(self.weighted, self.normalizer, self.state, pod, self.raw[passes])


def _normalized(weighted: Weighted, normalizer: NormalizePlugin, state: Any, pod: PodInfo, raw: Scores) -> Scores:
    scores: Scores = call(weighted.plugin, "NormalizeScore", normalizer.normalize, state, pod, raw)
    check_scores(weighted.name, scores)
    return scores * weighted.weight


@dataclass(slots=True, eq=False)
class PodClass:
    """What is known of each node for pods of one template, as of `position` in the change log."""

    table: NodeTable
    parts: Parts
    """Of `table`."""
    lineage: object
    position: int
    states: dict[str, Any]
    unfiltered: frozenset[str]
    """Plugins whose PreFilter was not concerned."""
    unscored: frozenset[str]
    """Plugins whose PreScore was not concerned."""
    may: Mask
    """(nodes,): whether the filters that read the node alone pass."""
    passes: Mask
    """(nodes,): whether all local filters pass."""
    base: Scores
    """(nodes,): weighted scores that need no normalizing, of plugins that read the node alone."""
    settled: Scores
    """(nodes,): `base`, and the shares of `relative`."""
    relative: tuple[_Relative, ...]
    total: Scores
    """(nodes,): all local scores, weighted; `INFEASIBLE` where a local filter refuses."""
    _feasible: Part | None = None
    _narrowed: tuple[Mask, Part] | None = None
    """What `among` was asked for last."""

    @property
    def feasible(self) -> Part:
        """Where all local filters pass."""
        if self._feasible is None:
            self._feasible = self.parts.of(self.passes)
        return self._feasible

    def among(self, passes: Mask) -> Part:
        """Where this mask holds as well, which others have narrowed; mostly for the next pod as for the last one."""
        if passes is self.passes:
            return self.feasible
        last = self._narrowed
        if last is None or not bool((last[0] == passes).all()):
            last = self._narrowed = passes, Part(np.flatnonzero(passes))
        return last[1]

    def set_passes(self, rows: Indices, passes: Mask) -> Mask:
        """What the filters say of these nodes now; where that is another answer than before."""
        flipped: Mask = self.passes.take(rows) != passes
        if flipped.any():
            self.passes[rows] = passes
            self._feasible = None
        return flipped


class Classes:
    """Of one profile; mutable."""

    def __init__(self, profile: Profile) -> None:
        self._pre_filters = tuple(plugin for plugin in profile.pre_filter if reads(plugin) is not Reads.CLUSTER)
        self._node_filters = tuple(plugin for plugin in profile.filter if reads(plugin) is Reads.NODE)
        self._load_filters = tuple(plugin for plugin in profile.filter if reads(plugin) is Reads.LOAD)
        self._pre_scores = tuple(plugin for plugin in profile.pre_score if reads(plugin) is not Reads.CLUSTER)
        self._scores = tuple(each for each in profile.score if reads(each.plugin) is not Reads.CLUSTER)
        self._load_scores = tuple(
            each for each in self._scores if reads(each.plugin) is Reads.LOAD and each.normalizer is None
        )
        self._known: dict[int, tuple[PodTemplate, PodClass]] = {}
        self._seen: dict[int, PodTemplate] = {}

    def of(self, pod: PodInfo, snapshot: Snapshot) -> PodClass | None:
        """What is true now; None if a plugin rejects the whole class, or fails, which the plain path then explains."""
        found = self._known.get(id(pod.template))
        if found is not None:
            known = found[1]
            if known.table is snapshot.nodes and known.lineage is snapshot.lineage:
                changed = snapshot.changed_since(known.position)
                if changed is not None:
                    if changed:
                        self._catch_up(known, pod, snapshot, changed)
                    return known
        try:
            learned = self._learn(pod, snapshot)
        except PluginFailed:
            return None  # with fewer nodes to look at it may not even be asked
        if learned is not None:
            self._keep(pod.template, learned, snapshot.count)
        return learned

    def _keep(self, template: PodTemplate, learned: PodClass, nodes: int) -> None:
        """A class is worth its room once a second pod of it has come."""
        if id(template) not in self._seen and id(template) not in self._known:
            if len(self._seen) >= _SEEN:
                self._seen.clear()
            self._seen[id(template)] = template
            return
        if len(self._known) >= max(_LEAST_KEPT, _KEPT // max(nodes, 1)):
            self._known.clear()
        self._known[id(template)] = (template, learned)

    def _learn(self, pod: PodInfo, snapshot: Snapshot) -> PodClass | None:
        states: dict[str, Any] = {}
        unfiltered: set[str] = set()
        unscored: set[str] = set()
        may = np.ones(snapshot.count, dtype=np.bool_)
        for plugin in self._pre_filters:
            found = call(plugin, "PreFilter", plugin.pre_filter, pod, snapshot)
            if found.status.code is Code.SKIP:
                unfiltered.add(plugin.name)
                continue
            if not found.status.ok:
                return None
            states[plugin.name] = found.state
            if found.only is not None:
                may &= found.only
        may &= _passing(self._node_filters, states, unfiltered, pod, snapshot)
        passes = may & _passing(self._load_filters, states, unfiltered, pod, snapshot)
        for scorer in self._pre_scores:
            prepared = call(scorer, "PreScore", scorer.pre_score, states.get(scorer.name), pod, snapshot)
            if prepared.code is Code.SKIP:
                unscored.add(scorer.name)
            else:
                states[scorer.name] = prepared.state
        base = np.zeros(snapshot.count, dtype=np.int64)
        relative = []
        for weighted in self._scores:
            if weighted.name in unscored:
                continue
            changes = reads(weighted.plugin) is Reads.LOAD
            if weighted.normalizer is not None:
                relative.append(_relative(weighted, weighted.normalizer, states, pod, snapshot, changes=changes))
            elif not changes:
                base += _checked(weighted, states, pod, snapshot)
        learned = PodClass(
            snapshot.nodes,
            snapshot.nodes.plan(("parts",), Parts),
            snapshot.lineage,
            snapshot.log_position,
            states,
            frozenset(unfiltered),
            frozenset(unscored),
            may,
            passes,
            base,
            base,
            tuple(relative),
            base,
        )
        for each in relative:
            each.renew(pod, passes, more=True)
        self._reckon(learned, pod, snapshot)
        return learned

    def _reckon(self, known: PodClass, pod: PodInfo, snapshot: Snapshot) -> None:
        """The totals of all nodes."""
        known.settled = known.base
        for each in known.relative:
            known.settled = known.settled + each.share
        known.total = self._total(known, pod, snapshot, known.settled.copy(), known.passes)

    def _catch_up(self, known: PodClass, pod: PodInfo, snapshot: Snapshot, changed: list[int]) -> None:
        """Asks again about the nodes to which pods came, or from which they went."""
        known.position = snapshot.log_position
        rows: Indices = np.array(changed if len(changed) == 1 else list(set(changed)), dtype=np.intp)
        everywhere = len(rows) * _REBUILD_SHARE > snapshot.count
        if everywhere:
            rows = np.arange(snapshot.count)
        view = snapshot if everywhere else snapshot.at(rows)
        passes = known.may.take(rows) & _passing(self._load_filters, known.states, known.unfiltered, pod, view)
        flipped = known.set_passes(rows, passes)
        moved = False
        if known.relative:
            other = bool(flipped.any())
            for each in known.relative:
                if each.changes:
                    each.raw[rows] = _raw(each.weighted, known.states, pod, view)
                if each.changes or other:
                    moved |= each.renew(pod, known.passes, more=bool((flipped & passes).any()))
        if moved:
            self._reckon(known, pod, snapshot)
        else:
            known.total[rows] = self._total(known, pod, view, known.settled.take(rows), passes)

    def totals(self, known: PodClass, pod: PodInfo, view: Snapshot, where: Indices) -> Scores:
        """The totals of the nodes at `where` if they were as `view` has them, and all others as they are."""
        passes = known.may.take(where) & _passing(self._load_filters, known.states, known.unfiltered, pod, view)
        return self._total(known, pod, view, known.settled.take(where), passes)

    def _total(self, known: PodClass, pod: PodInfo, view: Snapshot, total: Scores, passes: Mask) -> Scores:
        """The totals of the nodes of `view`: the rest is added to what is settled; `passes` are those that will do."""
        for weighted in self._load_scores:
            if weighted.name not in known.unscored:
                total += _checked(weighted, known.states, pod, view)
        if not passes.all():
            total[~passes] = INFEASIBLE
        return total


def _relative(
    weighted: Weighted,
    normalizer: NormalizePlugin,
    states: dict[str, Any],
    pod: PodInfo,
    snapshot: Snapshot,
    *,
    changes: bool,
) -> _Relative:
    state = states.get(weighted.name)
    raw: Scores = call(weighted.plugin, "Score", weighted.plugin.score, state, pod, snapshot)
    if changes:
        return _Relative(weighted, normalizer, state, raw.copy(), None, np.zeros(snapshot.count, dtype=np.int64))
    # plugins give the same array for equal questions, and what comes of it is kept with it
    whole = snapshot.nodes.plan(
        ("spread", weighted.name, weighted.weight, id(raw)),
        lambda: _Spread.of(raw, lambda raw: _normalized(weighted, normalizer, state, pod, raw)),
    )
    return _Relative(weighted, normalizer, state, raw, whole, whole.share)


def _passing(
    filters: tuple[FilterPlugin, ...],
    states: dict[str, Any],
    unfiltered: set[str] | frozenset[str],
    pod: PodInfo,
    view: Snapshot,
) -> Mask:
    passes: Mask | None = None
    for plugin in filters:
        if plugin.name not in unfiltered:
            found: Mask = call(plugin, "Filter", plugin.filter, states.get(plugin.name), pod, view).passes
            passes = found if passes is None else passes & found
    return np.ones(view.count, dtype=np.bool_) if passes is None else passes


def _raw(weighted: Weighted, states: dict[str, Any], pod: PodInfo, view: Snapshot) -> Scores:
    scores: Scores = call(weighted.plugin, "Score", weighted.plugin.score, states.get(weighted.name), pod, view)
    return scores.copy()


def _checked(weighted: Weighted, states: dict[str, Any], pod: PodInfo, view: Snapshot) -> Scores:
    scores: Scores = call(weighted.plugin, "Score", weighted.plugin.score, states.get(weighted.name), pod, view)
    check_scores(weighted.name, scores)
    return scores * weighted.weight if weighted.weight != 1 else scores
