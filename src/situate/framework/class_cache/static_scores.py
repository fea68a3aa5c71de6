"""The results that depend only on the nodes, for Pods that differ only in their requests.

Labels, taints, names and images decide most filters and most scores of such Pods. These results are computed once for
all of them and stay valid until a Node changes. A Pod that is new only in its amounts then costs only comparisons of
amounts.

Pods share a result if every plugin evaluated here declares that it does not read requests (`Plugin.heeds_requests`).
Otherwise each template has its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from situate.framework.cycle.cycle import call, check_scores
from situate.framework.plugin_api.plugin import (
    HIGHEST,
    FilterPlugin,
    NormalizePlugin,
    Reads,
    Scores,
    heeds_requests,
    reads,
)
from situate.framework.pod.pods import PodInfo, PodTemplate
from situate.framework.profile.profile import Profile, WeightedPlugin
from situate.framework.results.status import Code
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot

Totals = NDArray[np.signedinteger[Any]]
"""(nodes,): weighted sums of scores; negative where a node is infeasible."""

_INT16_LIMIT: Final = 2**13
"""Totals up to this limit fit 16 bits. Values far below zero, or sums of two totals, fit as well."""
_CACHED_NODES_LIMIT: Final = 2**22
"""Number of nodes in all static scores together; about 5 bytes each."""
_CACHED_SCORES_MINIMUM: Final = 64


def total_type(scores: Iterable[WeightedPlugin]) -> type[np.signedinteger[Any]]:
    """Return the type of their weighted sums.

    Two such sums may be added: the type has 16 bits only if the result fits.
    """
    return np.int16 if _highest_total(scores) <= _INT16_LIMIT else np.int64


def _highest_total(scores: Iterable[WeightedPlugin]) -> int:
    return sum(HIGHEST * each.weight for each in scores)


@dataclass(slots=True, eq=False)
class NormalizedScores:
    """A plugin's raw scores, and their normalized values while both extremes are feasible."""

    weighted: WeightedPlugin
    normalizer: NormalizePlugin
    state: Any
    raw: Scores
    """(nodes,)"""
    lowest: int
    highest: int
    """The extremes over the nodes that pass the static filters."""
    at_lowest: Indices
    at_highest: Indices
    """Both are empty if all raw scores are equal."""
    share: Totals
    """(nodes,): normalized and weighted; valid where a node passes the static filters."""
    _low: int = 0
    _high: int = 0
    """Indices in `at_lowest` and `at_highest` of nodes that were feasible at the last check."""

    def extremes_are_feasible(self, feasible: Mask | Totals, least: int) -> bool:
        """Return whether both extremes are among the feasible nodes: those with a value of at least `least`."""
        if feasible.item(self.at_lowest.item(self._low)) < least:
            where = np.flatnonzero(feasible.take(self.at_lowest) >= least)
            if not len(where):
                return False
            self._low = int(where[0])
        if feasible.item(self.at_highest.item(self._high)) < least:
            where = np.flatnonzero(feasible.take(self.at_highest) >= least)
            if not len(where):
                return False
            self._high = int(where[0])
        return True

    def extreme_nodes(self) -> tuple[int, int]:
        """Return a node with the lowest and one with the highest score, feasible when `holds` was last true."""
        return self.at_lowest.item(self._low), self.at_highest.item(self._high)

    def extremes(self, nodes: Indices) -> tuple[int, int] | None:
        among = self.raw.take(nodes)
        return (int(among.min()), int(among.max())) if len(among) else None

    def shares(self, pod: PodInfo, nodes: Indices) -> Scores:
        """Return (nodes,): scores normalized over these nodes, at least one, and weighted."""
        return _normalize_and_weight(self.weighted, self.normalizer, self.state, pod, self.raw.take(nodes))


@dataclass(frozen=True, slots=True, eq=False)
class StaticScores:
    """The node-only results for Pods of one kind on one node table; its arrays are read-only."""

    states: dict[str, Any]
    unfiltered: frozenset[str]
    """Plugins whose PreFilter skipped."""
    unscored: frozenset[str]
    """Plugins whose PreScore skipped."""
    passes: Mask
    """(nodes,): whether the filters pass that read only the node."""
    count: int
    """The number of nodes that pass."""
    base: Totals
    """(nodes,): scores that are not normalized; far below zero where a node does not pass."""
    relative: tuple[NormalizedScores, ...]
    varied: tuple[NormalizedScores, ...]
    """The entries of `relative` with more than one raw score."""
    settled: Totals
    """(nodes,): `base` plus the shares of `relative`."""

    def is_valid(self, feasible: Mask | Totals, least: int) -> bool:
        """Return whether `settled` is valid with these feasible nodes: those with a value of at least `least`."""
        return all(each.extremes_are_feasible(feasible, least) for each in self.varied)

    def totals_among(self, pod: PodInfo, nodes: Indices) -> Totals:
        """Return (nodes,): the same totals if only these nodes, at least one, are feasible."""
        settled = self.base.take(nodes)
        for each in self.relative:
            settled += each.shares(pod, nodes).astype(settled.dtype)
        return settled


class StaticScoresCache:
    """The static scores of one profile; mutable."""

    def __init__(self, profile: Profile) -> None:
        self._pre_filters = tuple(plugin for plugin in profile.pre_filter if reads(plugin) is not Reads.CLUSTER)
        self._filters = tuple(plugin for plugin in profile.filter if reads(plugin) is Reads.NODE)
        self._pre_scores = tuple(plugin for plugin in profile.pre_score if reads(plugin) is Reads.NODE)
        self._scores = tuple(each for each in profile.score if reads(each.plugin) is Reads.NODE)
        asked = (*self._pre_filters, *self._filters, *self._pre_scores, *(each.plugin for each in self._scores))
        self._ignores_requests = not any(map(heeds_requests, asked))
        local = [each for each in profile.score if reads(each.plugin) is not Reads.CLUSTER]
        self.dtype, highest = total_type(local), _highest_total(local)
        """The type of totals, and the highest total."""
        self._refused = -2 * max(highest, 1)
        self._nodes: NodeTable | None = None
        self._known: dict[object, tuple[PodTemplate, StaticScores]] = {}
        self._settled: dict[int, Totals] = {}
        """By the hash of the contents."""

    def scores_for(self, pod: PodInfo, snapshot: Snapshot) -> StaticScores | None:
        """Return the static scores; None if a plugin rejects the Pods as a whole. `PluginFailed` if one fails."""
        if self._nodes is not snapshot.nodes:
            self._nodes = snapshot.nodes
            self._clear_cache()
        key = pod.template.equivalence_class if self._ignores_requests else id(pod.template)
        known = self._known.get(key)
        if known is not None:
            return known[1]
        found = self._compute_scores(pod, snapshot)
        if found is not None:
            if len(self._known) >= max(_CACHED_SCORES_MINIMUM, _CACHED_NODES_LIMIT // max(snapshot.count, 1)):
                self._clear_cache()
            self._known[key] = pod.template, found
        return found

    def _clear_cache(self) -> None:
        self._known.clear()
        self._settled.clear()

    def _share_totals(self, settled: Totals) -> Totals:
        """Return the same array for equal totals, so that reading one node for many kinds reads few arrays."""
        known = self._settled.setdefault(hash(settled.tobytes()), settled)
        return known if np.array_equal(known, settled) else settled

    def _compute_scores(self, pod: PodInfo, snapshot: Snapshot) -> StaticScores | None:
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
        for passing in _filter_masks(self._filters, states, unfiltered, pod, snapshot):
            may &= passing
        for scorer in self._pre_scores:
            prepared = call(scorer, "PreScore", scorer.pre_score, states.get(scorer.name), pod, snapshot)
            if prepared.code is Code.SKIP:
                unscored.add(scorer.name)
            else:
                states[scorer.name] = prepared.state
        base = np.where(may, 0, self._refused).astype(self.dtype)
        relative = []
        for weighted in self._scores:
            if weighted.name in unscored:
                continue
            raw: Scores = call(
                weighted.plugin, "Score", weighted.plugin.score, states.get(weighted.name), pod, snapshot
            )
            if weighted.normalizer is None:
                check_scores(weighted.name, raw)
                base += (raw * weighted.weight).astype(self.dtype)
            else:
                share = np.zeros(snapshot.count, dtype=self.dtype)
                relative.append(
                    _normalized_scores(weighted, weighted.normalizer, states.get(weighted.name), pod, raw, may, share)
                )
        settled = base.copy()
        for each in relative:
            settled += each.share
        varied = tuple(each for each in relative if each.lowest != each.highest)
        return StaticScores(
            states,
            frozenset(unfiltered),
            frozenset(unscored),
            may,
            int(np.count_nonzero(may)),
            base,
            tuple(relative),
            varied,
            self._share_totals(settled),
        )


def _filter_masks(
    filters: tuple[FilterPlugin, ...],
    states: dict[str, Any],
    unfiltered: set[str],
    pod: PodInfo,
    snapshot: Snapshot,
) -> list[Mask]:
    return [
        call(plugin, "Filter", plugin.filter, states.get(plugin.name), pod, snapshot).passes
        for plugin in filters
        if plugin.name not in unfiltered
    ]


def _normalized_scores(
    weighted: WeightedPlugin,
    normalizer: NormalizePlugin,
    state: Any,
    pod: PodInfo,
    raw: Scores,
    may: Mask,
    share: Totals,
) -> NormalizedScores:
    """Fill `share`, which must be zero, and return the scores with their extremes."""
    nodes = np.flatnonzero(may)
    among = raw.take(nodes)
    lowest, highest = (int(among.min()), int(among.max())) if len(nodes) else (0, 0)
    if len(nodes):
        share[nodes] = _normalize_and_weight(weighted, normalizer, state, pod, among)
    some = nodes if lowest != highest else nodes[:0]
    of_some = among[: len(some)]
    at_lowest, at_highest = some[of_some == lowest], some[of_some == highest]
    return NormalizedScores(weighted, normalizer, state, raw, lowest, highest, at_lowest, at_highest, share)


def _normalize_and_weight(
    weighted: WeightedPlugin, normalizer: NormalizePlugin, state: Any, pod: PodInfo, raw: Scores
) -> Scores:
    scores: Scores = call(weighted.plugin, "NormalizeScore", normalizer.normalize, state, pod, raw)
    check_scores(weighted.name, scores)
    return scores * weighted.weight
