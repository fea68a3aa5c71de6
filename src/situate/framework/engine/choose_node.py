"""Choose the node of a Pod, by the plain path or by the cached results of its class where that is allowed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from situate.framework.class_cache.equal_pod_runs import place_run
from situate.framework.class_cache.nominated_conflicts import NominatedConflicts
from situate.framework.class_cache.pod_class import PodClass
from situate.framework.class_cache.pod_class_cache import PodClassCache
from situate.framework.class_cache.static_scores import Totals, total_type
from situate.framework.class_cache.switches import Shortcuts
from situate.framework.cycle import cycle
from situate.framework.cycle.cycle import (
    NO_PRE_FILTER_RESULTS,
    Feasibility,
    PodsByNominatedNode,
    PreFilterResults,
    call,
)
from situate.framework.cycle.node_sampling import feasible_nodes_to_find, index_of_best, visit
from situate.framework.plugin_api.plugin import (
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Scores,
    about_claims,
    reads,
)
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import ALL_NODES, Profile, WeightedPlugin
from situate.framework.results.status import Code
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.node_subset import NodeSubset
from situate.framework.snapshot.nominated_pods import NominatedPods
from situate.framework.snapshot.snapshot import Snapshot

TieBreaker = Callable[[Scores], int]
"""Returns the index of one of the highest totals."""


class Choice(msgspec.Struct, frozen=True, gc=False):
    """A node for a Pod. It is created for every placement; a dataclass would take five times as long."""

    index: int
    """In the table of the snapshot."""
    visited: int
    """The number of evaluated nodes."""
    feasible: int
    """The number of feasible nodes among them."""


@dataclass(frozen=True, slots=True, eq=False)
class _ClusterPlugins:
    """The plugins that read more than the node."""

    pre_filters: tuple[PreFilterPlugin, ...]
    filters: tuple[FilterPlugin, ...]
    pre_scores: tuple[PreScorePlugin, ...]
    scores: tuple[WeightedPlugin, ...]
    concerns: tuple[tuple[str, Callable[[PodInfo, Snapshot], bool]], ...] | None
    """Functions that check whether each plugin applies to a Pod; None if a plugin has no such check."""
    width: type[np.signedinteger[Any]]
    """The type of the sum that `scores` add to a total."""
    unconcerned: PreFilterResults
    """The PreFilter result for a Pod to which none of the plugins applies."""
    left_out: frozenset[str]
    """The filters that were left out when this was narrowed to some plugins."""
    narrowed: dict[tuple[str, ...], _ClusterPlugins]
    """Subsets of the plugins by their names, created on demand."""

    @classmethod
    def from_profile(cls, profile: Profile, *, claims: bool) -> _ClusterPlugins:
        """Select the plugins that apply to Pods with claims, or to Pods without claims."""

        def heard(plugin: object) -> bool:
            return reads(plugin) is Reads.CLUSTER and (claims or not about_claims(plugin))

        pre_filters = tuple(plugin for plugin in profile.pre_filter if heard(plugin))
        filters = tuple(plugin for plugin in profile.filter if heard(plugin))
        pre_scores = tuple(plugin for plugin in profile.pre_score if heard(plugin))
        scores = tuple(each for each in profile.score if heard(each.plugin))
        # a plugin that cannot skip runs without preparation
        able: dict[str, object] = {plugin.name: plugin for plugin in (*pre_filters, *pre_scores)}
        unable = {plugin.name for plugin in filters} - {plugin.name for plugin in pre_filters}
        unable |= {each.name for each in scores} - {plugin.name for plugin in pre_scores}
        concerns = [(name, getattr(plugin, "concerned", None)) for name, plugin in able.items()]
        told = tuple((name, concerned) for name, concerned in concerns if concerned is not None)
        known = None if unable or len(told) < len(concerns) else told
        skipped = PreFilterResults({}, frozenset(plugin.name for plugin in filters))
        return cls(pre_filters, filters, pre_scores, scores, known, total_type(scores), skipped, frozenset(), {})

    def plugins_for(self, pod: PodInfo, snapshot: Snapshot) -> _ClusterPlugins | None:
        """Return the plugins that may apply to the Pod; None if none does."""
        concerns = self.concerns
        if concerns is None:
            return self
        names = [name for name, concerned in concerns if concerned(pod, snapshot)]
        if not names:
            return None
        if len(names) == len(concerns):
            return self
        key = tuple(names)
        found = self.narrowed.get(key)
        if found is None:
            found = self.narrowed[key] = self._with_names(frozenset(names))
        return found

    def _with_names(self, names: frozenset[str]) -> _ClusterPlugins:
        scores = tuple(each for each in self.scores if each.name in names)
        return replace(
            self,
            pre_filters=tuple(plugin for plugin in self.pre_filters if plugin.name in names),
            filters=tuple(plugin for plugin in self.filters if plugin.name in names),
            pre_scores=tuple(plugin for plugin in self.pre_scores if plugin.name in names),
            scores=scores,
            width=total_type(scores),
            left_out=frozenset(plugin.name for plugin in self.filters if plugin.name not in names),
        )


class NodeChooser:
    """Choice of nodes for one profile, with the start of the next sampling round and the cached classes."""

    def __init__(self, profile: Profile, shortcuts: Shortcuts, *, extended: bool = False) -> None:
        """`extended` says whether any extender filters or scores nodes."""
        self._profile = profile
        self._first_will_do = not profile.score and not extended
        """If no score distinguishes nodes, the first feasible one is enough."""
        compares_all = profile.percentage_of_nodes_to_score >= ALL_NODES and not self._first_will_do
        known = shortcuts.classes and compares_all
        self._classes = PodClassCache(profile, evaluators=shortcuts.evaluators) if known else None
        self._for_claims = _ClusterPlugins.from_profile(profile, claims=True)
        self._for_others = _ClusterPlugins.from_profile(profile, claims=False)
        self._claim_filters = tuple(plugin.name for plugin in profile.filter if about_claims(plugin))
        self.next_start = 0
        """The node at which the next round of visits starts."""

    def choose(
        self, pod: PodInfo, snapshot: Snapshot, nominations: PodsByNominatedNode, nominated: int | None, tie: TieBreaker
    ) -> Choice | Feasibility:
        """Return a node, or the reasons why no node is feasible.

        `nominations` are other Pods of at least this Pod's priority, by their nominated node. `nominated` is this Pod's
        own nominated node, which it takes if the node is still feasible.
        """
        if nominated is not None:
            alone = self._choose_nominated_node(pod, snapshot, nominations, nominated)
            if alone is not None:
                return alone
        if self._classes is not None and not pod.pod.spec.node_name:
            choice = self._choose_by_class(self._classes, pod, snapshot, nominations, tie)
            if choice is not None:
                return choice
        return self._choose_plainly(pod, snapshot, nominations, tie)

    def compares_all(self, pod: PodInfo) -> bool:
        """Return whether the Pod's class decides its node, unless no node is feasible."""
        return self._classes is not None and not pod.pod.spec.node_name

    def choose_at_once(self, pod: PodInfo, snapshot: Snapshot, tie: TieBreaker) -> int | None:
        """Return the node of a Pod for which all nodes are compared, without nominations.

        None if only `choose` can decide.
        """
        if self._classes is None:
            return None
        beyond = self._cluster_plugins(pod).plugins_for(pod, snapshot)
        if beyond is not None:
            choice = self._choose_with_other_pods(self._classes, beyond, pod, snapshot, {}, tie)
            return None if choice is None else choice.index
        if tie is index_of_best:
            node = self._classes.best_node_without_class(pod, snapshot)
            if node is not None:
                return node
        known = self._classes.current_class(pod, snapshot)
        if known is None or not known.count:
            return None
        return known.best_node() if tie is index_of_best else tie(known.total)

    def choose_run(self, pod: PodInfo, snapshot: Snapshot, count: int) -> Indices:
        """Return the nodes of the next Pods like this one, in order, as if they were chosen one after the other.

        There are at most `count` nodes, and none if the Pods must be placed one by one. Ties go to the first node.
        There must be no nominations.
        """
        classes = self._classes
        none = np.zeros(0, dtype=np.intp)
        if classes is None or pod.template.host_ports or pod.pod.spec.node_name:
            return none
        beyond = self._cluster_plugins(pod).plugins_for(pod, snapshot)
        prepared = NO_PRE_FILTER_RESULTS if beyond is None else cycle.prepare(beyond.pre_filters, pod, snapshot)
        if not prepared.status.ok or prepared.only is not None:
            return none
        if beyond is not None and any(plugin.name not in prepared.skipped for plugin in beyond.filters):
            return none
        known = classes.current_class(pod, snapshot)
        if known is None or not known.count:
            return none
        if beyond is not None and _any_plugin_scores(beyond, known.feasible, pod, snapshot, prepared):
            return none
        return place_run(classes, known, pod, snapshot, count)

    def _cluster_plugins(self, pod: PodInfo) -> _ClusterPlugins:
        return self._for_claims if pod.has_claims else self._for_others

    def _choose_nominated_node(
        self, pod: PodInfo, snapshot: Snapshot, nominations: PodsByNominatedNode, node: int
    ) -> Choice | None:
        """Return the nominated node if it is feasible."""
        return Choice(node, 1, 1) if cycle.fits(self._profile, pod, snapshot, nominations, node) else None

    def _choose_plainly(
        self, pod: PodInfo, snapshot: Snapshot, nominations: PodsByNominatedNode, tie: TieBreaker
    ) -> Choice | Feasibility:
        found = cycle.find_feasible(self._profile, pod, snapshot, nominations)
        nodes, visited = self.visit(found)
        if not len(nodes):
            return found
        if len(nodes) == 1:
            return Choice(int(nodes[0]), visited, 1)
        totals = cycle.score(self._profile, pod, found, nodes)
        return Choice(int(nodes[tie(totals)]), visited, len(nodes))

    def visit(self, found: Feasibility) -> tuple[Indices, int]:
        """Return the feasible nodes to compare, and the number of visited nodes. The next round starts after these."""
        count = len(found.passes)
        enough = feasible_nodes_to_find(count, self._profile.percentage_of_nodes_to_score)
        if self._first_will_do:
            enough = 1
        elif self._profile.percentage_of_nodes_to_score >= ALL_NODES:
            enough = count
        nodes, visited = visit(found.passes, self.next_start, enough)
        self.next_start = (self.next_start + visited) % count
        return nodes, visited

    def _choose_by_class(
        self,
        classes: PodClassCache,
        pod: PodInfo,
        snapshot: Snapshot,
        nominations: PodsByNominatedNode,
        tie: TieBreaker,
    ) -> Choice | None:
        """Return a choice; None if only the plain path can decide.

        Then no node is feasible, or a plugin rejects the Pod as a whole.
        """
        beyond = self._cluster_plugins(pod).plugins_for(pod, snapshot)
        if nominations or beyond is not None:
            return self._choose_with_other_pods(classes, beyond, pod, snapshot, nominations, tie)
        known = classes.current_class(pod, snapshot)
        if known is None or not known.count:
            return None
        index = known.best_node() if tie is index_of_best else tie(known.total)
        return Choice(index, snapshot.count, known.count)

    def _choose_with_other_pods(
        self,
        classes: PodClassCache,
        beyond: _ClusterPlugins | None,
        pod: PodInfo,
        snapshot: Snapshot,
        nominations: PodsByNominatedNode,
        tie: TieBreaker,
    ) -> Choice | None:
        """Return the choice if other Pods matter: nominated ones, or placed ones that the plugins of `beyond` read."""
        prepared = self._run_pre_filters(beyond, pod, snapshot)
        if not prepared.status.ok:
            return None
        known = classes.current_class(pod, snapshot)
        if known is None:
            return None
        passes = known.passes if beyond is None else _passing_nodes(beyond, known, pod, snapshot, prepared)
        if nominations:
            crowded = self._nodes_without_capacity(nominations, passes, known, pod, snapshot, prepared, beyond)
            if len(crowded):
                passes = passes.copy()
                passes[crowded] = False
        part = known.nodes_in_mask(passes)
        nodes = part.nodes
        if not len(nodes):
            return None
        added = None if beyond is None else _added_scores(beyond, part, pod, snapshot, prepared)
        if passes is not known.passes:
            total = known.totals_among(pod, passes, nodes)
        elif added is None:
            return Choice(tie(known.total), snapshot.count, len(nodes))
        else:
            total = known.total if len(nodes) == snapshot.count else known.total.take(nodes)
        if added is not None:
            total = total + added
        return Choice(int(nodes[tie(total)]), snapshot.count, len(nodes))

    def _run_pre_filters(self, beyond: _ClusterPlugins | None, pod: PodInfo, snapshot: Snapshot) -> PreFilterResults:
        if beyond is None:
            return self._cluster_plugins(pod).unconcerned
        return cycle.prepare(beyond.pre_filters, pod, snapshot)

    def _nodes_without_capacity(
        self,
        nominations: PodsByNominatedNode,
        passes: Mask,
        known: PodClass,
        pod: PodInfo,
        snapshot: Snapshot,
        prepared: PreFilterResults,
        beyond: _ClusterPlugins | None,
    ) -> Indices:
        """Return the passing nodes where nominated Pods leave too little capacity.

        Without `beyond`, the Pod depends only on the load of a node.
        """
        local = beyond is None
        if local and known.crowded is not None and known.crowded.is_valid(nominations, snapshot):
            return known.crowded.nodes
        unheard = () if pod.has_claims else self._claim_filters
        everything = PreFilterResults(
            {**known.states, **prepared.states},
            known.static_scores.unfiltered.union(prepared.skipped, unheard, () if beyond is None else beyond.left_out),
            prepared.only,
        )
        nodes = cycle.nodes_without_capacity(self._profile, pod, snapshot, everything, nominations, passes)
        if local and isinstance(nominations, NominatedPods):
            known.crowded = NominatedConflicts(nominations, nominations.version, snapshot.log_position, nodes)
        return nodes


def _any_plugin_scores(
    beyond: _ClusterPlugins, part: NodeSubset, pod: PodInfo, snapshot: Snapshot, prepared: PreFilterResults
) -> bool:
    """Return whether one of the plugins scores the Pod."""
    view = snapshot.select_nodes(part)
    skipped = {
        plugin.name
        for plugin in beyond.pre_scores
        if call(plugin, "PreScore", plugin.pre_score, prepared.states.get(plugin.name), pod, view).code is Code.SKIP
    }
    return any(weighted.name not in skipped for weighted in beyond.scores)


def _passing_nodes(
    beyond: _ClusterPlugins, known: PodClass, pod: PodInfo, snapshot: Snapshot, prepared: PreFilterResults
) -> Mask:
    """Return the passing nodes: the class's own mask if no other plugin narrows it."""
    passes = known.passes
    if prepared.only is not None:
        passes = passes & prepared.only
    for plugin in beyond.filters:
        if plugin.name not in prepared.skipped:
            state = prepared.states.get(plugin.name)
            passing: Mask = call(plugin, "Filter", plugin.filter, state, pod, snapshot).passes
            if np.count_nonzero(passing) < len(passing):
                passes = passes & passing
    return passes


def _added_scores(
    beyond: _ClusterPlugins, part: NodeSubset, pod: PodInfo, snapshot: Snapshot, prepared: PreFilterResults
) -> Totals | None:
    """Return (feasible,): the plugins' shares of the totals of these nodes; None if there are none."""
    if len(part.nodes) < 2 or not beyond.scores:  # a single node is taken without scores
        return None
    view = snapshot if len(part.nodes) == snapshot.count else snapshot.select_nodes(part)
    given, states = prepared.states, dict(prepared.states)
    skipped: set[str] = set()
    for plugin in beyond.pre_scores:
        name = plugin.name
        found = call(plugin, "PreScore", plugin.pre_score, given.get(name), pod, view)
        if found.code is Code.SKIP:
            skipped.add(name)
        else:
            states[name] = found.state
    added: Totals | None = None
    for weighted in beyond.scores:
        if weighted.name not in skipped:
            share = _weighted_share(weighted, states.get(weighted.name), pod, view, beyond.width)
            added = share if added is None else added + share
    return added


def _weighted_share(
    weighted: WeightedPlugin, state: Any, pod: PodInfo, view: Snapshot, width: type[np.signedinteger[Any]]
) -> Totals:
    """Return the weighted scores of one plugin for each node of the view, all of them feasible."""
    grading = weighted.grading
    if grading is None:
        return cycle.weighted_scores(weighted, state, pod, view).astype(width, copy=False)
    grades = call(grading, "Score", grading.grades, state, pod, view)
    worth = call(grading, "NormalizeScore", grading.normalize, state, pod, grades.present_values)
    cycle.check_scores(weighted.name, worth)
    shares: Totals = grades.spread_over_nodes((worth * weighted.weight).astype(width, copy=False))
    return shares
