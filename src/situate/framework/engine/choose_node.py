"""Which node a pod gets: the plain path, or by what is known of the pod's class where that is allowed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from situate.framework.class_cache.equal_pod_runs import place_run
from situate.framework.class_cache.nominated_conflicts import Crowded
from situate.framework.class_cache.pod_class import PodClass
from situate.framework.class_cache.pod_class_cache import Classes
from situate.framework.class_cache.static_scores import Totals, width_of
from situate.framework.class_cache.switches import Shortcuts
from situate.framework.cycle import cycle
from situate.framework.cycle.cycle import NOTHING_PREPARED, Feasibility, Nominations, Prepared, call
from situate.framework.cycle.node_sampling import best, feasible_nodes_to_find, visit
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
from situate.framework.profile.profile import ALL_NODES, Profile, Weighted
from situate.framework.results.status import Code
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.node_subset import Part
from situate.framework.snapshot.nominated_pods import Promised
from situate.framework.snapshot.snapshot import Snapshot

Tie = Callable[[Scores], int]
"""The index of one of the highest."""


class Choice(msgspec.Struct, frozen=True, gc=False):
    """A node for a pod; made for every placement, and a dataclass would take five times as long."""

    index: int
    """In the table of the snapshot."""
    visited: int
    """So many nodes were looked at."""
    feasible: int
    """So many of them would do."""


@dataclass(frozen=True, slots=True, eq=False)
class _Beyond:
    """The plugins that look beyond the node."""

    pre_filters: tuple[PreFilterPlugin, ...]
    filters: tuple[FilterPlugin, ...]
    pre_scores: tuple[PreScorePlugin, ...]
    scores: tuple[Weighted, ...]
    concerns: tuple[tuple[str, Callable[[PodInfo, Snapshot], bool]], ...] | None
    """What tells whether each of them has a say about a pod; None if only asking all of them tells."""
    width: type[np.signedinteger[Any]]
    """Of what `scores` add to a total."""
    unconcerned: Prepared
    """What preparing for a pod comes to where none has."""
    left_out: frozenset[str]
    """Filters of those that have none, if these are the others."""
    narrowed: dict[tuple[str, ...], _Beyond]
    """The others, by their names; filled as they are met."""

    @classmethod
    def of(cls, profile: Profile, *, claims: bool) -> _Beyond:
        """Those that have a say about a pod with claims, or about one without."""

        def heard(plugin: object) -> bool:
            return reads(plugin) is Reads.CLUSTER and (claims or not about_claims(plugin))

        pre_filters = tuple(plugin for plugin in profile.pre_filter if heard(plugin))
        filters = tuple(plugin for plugin in profile.filter if heard(plugin))
        pre_scores = tuple(plugin for plugin in profile.pre_score if heard(plugin))
        scores = tuple(each for each in profile.score if heard(each.plugin))
        # a plugin that could not skip is asked without having been prepared
        able: dict[str, object] = {plugin.name: plugin for plugin in (*pre_filters, *pre_scores)}
        unable = {plugin.name for plugin in filters} - {plugin.name for plugin in pre_filters}
        unable |= {each.name for each in scores} - {plugin.name for plugin in pre_scores}
        concerns = [(name, getattr(plugin, "concerned", None)) for name, plugin in able.items()]
        told = tuple((name, concerned) for name, concerned in concerns if concerned is not None)
        known = None if unable or len(told) < len(concerns) else told
        skipped = Prepared({}, frozenset(plugin.name for plugin in filters))
        return cls(pre_filters, filters, pre_scores, scores, known, width_of(scores), skipped, frozenset(), {})

    def concerned(self, pod: PodInfo, snapshot: Snapshot) -> _Beyond | None:
        """Those of them that may have something to say about the pod; None if nobody has."""
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
            found = self.narrowed[key] = self._narrowed_to(frozenset(names))
        return found

    def _narrowed_to(self, names: frozenset[str]) -> _Beyond:
        scores = tuple(each for each in self.scores if each.name in names)
        return replace(
            self,
            pre_filters=tuple(plugin for plugin in self.pre_filters if plugin.name in names),
            filters=tuple(plugin for plugin in self.filters if plugin.name in names),
            pre_scores=tuple(plugin for plugin in self.pre_scores if plugin.name in names),
            scores=scores,
            width=width_of(scores),
            left_out=frozenset(plugin.name for plugin in self.filters if plugin.name not in names),
        )


class Chooser:
    """Of one profile; remembers where the next round of visits starts, and what is known per class."""

    def __init__(self, profile: Profile, shortcuts: Shortcuts, *, extended: bool = False) -> None:
        """`extended`: whether extenders filter or score nodes, for pods of whatever kind."""
        self._profile = profile
        self._first_will_do = not profile.score and not extended
        """Where nothing tells nodes apart, the first feasible one is enough."""
        compares_all = profile.percentage_of_nodes_to_score >= ALL_NODES and not self._first_will_do
        known = shortcuts.classes and compares_all
        self._classes = Classes(profile, gauges=shortcuts.gauges) if known else None
        self._for_claims = _Beyond.of(profile, claims=True)
        self._for_others = _Beyond.of(profile, claims=False)
        self._unheard = tuple(plugin.name for plugin in profile.filter if about_claims(plugin))
        self.next_start = 0
        """Where the next round of visits starts."""

    def choose(
        self, pod: PodInfo, snapshot: Snapshot, nominations: Nominations, nominated: int | None, tie: Tie
    ) -> Choice | Feasibility:
        """A node, or why none will do.

        `nominations`: other pods of at least this one's priority, by the node that they have been promised.
        `nominated`: the node that this pod has been promised, which it takes if it still can.
        """
        if nominated is not None:
            alone = self._find_at(pod, snapshot, nominations, nominated)
            if alone is not None:
                return alone
        if self._classes is not None and not pod.pod.spec.node_name:
            choice = self._choose_by_class(self._classes, pod, snapshot, nominations, tie)
            if choice is not None:
                return choice
        return self._choose_plainly(pod, snapshot, nominations, tie)

    def compares_all(self, pod: PodInfo) -> bool:
        """Whether what is known of its class says where the pod goes, unless none will do."""
        return self._classes is not None and not pod.pod.spec.node_name

    def choose_at_once(self, pod: PodInfo, snapshot: Snapshot, tie: Tie) -> int | None:
        """The node of a pod for which all nodes are compared, while nothing is nominated; None where `choose` knows
        more.
        """
        if self._classes is None:
            return None
        beyond = self._beyond(pod).concerned(pod, snapshot)
        if beyond is not None:
            choice = self._choose_beside_others(self._classes, beyond, pod, snapshot, {}, tie)
            return None if choice is None else choice.index
        if tie is best:
            node = self._classes.best_for_stranger(pod, snapshot)
            if node is not None:
                return node
        known = self._classes.of(pod, snapshot)
        if known is None or not known.count:
            return None
        return known.best() if tie is best else tie(known.total)

    def choose_run(self, pod: PodInfo, snapshot: Snapshot, count: int) -> Indices:
        """The nodes of the next pods like this one, in their order, as if they were chosen one after the other.

        At most `count`; none where they have to be. Ties go to the first node. Nothing may be nominated.
        """
        classes = self._classes
        none = np.zeros(0, dtype=np.intp)
        if classes is None or pod.template.host_ports or pod.pod.spec.node_name:
            return none
        beyond = self._beyond(pod).concerned(pod, snapshot)
        prepared = NOTHING_PREPARED if beyond is None else cycle.prepare(beyond.pre_filters, pod, snapshot)
        if not prepared.status.ok or prepared.only is not None:
            return none
        if beyond is not None and any(plugin.name not in prepared.skipped for plugin in beyond.filters):
            return none
        known = classes.of(pod, snapshot)
        if known is None or not known.count:
            return none
        if beyond is not None and _have_a_say(beyond, known.feasible, pod, snapshot, prepared):
            return none
        return place_run(classes, known, pod, snapshot, count)

    def _beyond(self, pod: PodInfo) -> _Beyond:
        return self._for_claims if pod.has_claims else self._for_others

    def _find_at(self, pod: PodInfo, snapshot: Snapshot, nominations: Nominations, node: int) -> Choice | None:
        """The promised node, if it will do."""
        return Choice(node, 1, 1) if cycle.fits(self._profile, pod, snapshot, nominations, node) else None

    def _choose_plainly(
        self, pod: PodInfo, snapshot: Snapshot, nominations: Nominations, tie: Tie
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
        """The feasible nodes that are compared, and how many were looked at for them; the next round starts there."""
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
        self, classes: Classes, pod: PodInfo, snapshot: Snapshot, nominations: Nominations, tie: Tie
    ) -> Choice | None:
        """None where only the plain path can tell more: nothing is feasible, or a plugin rejects the pod as a whole."""
        beyond = self._beyond(pod).concerned(pod, snapshot)
        if nominations or beyond is not None:
            return self._choose_beside_others(classes, beyond, pod, snapshot, nominations, tie)
        known = classes.of(pod, snapshot)
        if known is None or not known.count:
            return None
        index = known.best() if tie is best else tie(known.total)
        return Choice(index, snapshot.count, known.count)

    def _choose_beside_others(
        self,
        classes: Classes,
        beyond: _Beyond | None,
        pod: PodInfo,
        snapshot: Snapshot,
        nominations: Nominations,
        tie: Tie,
    ) -> Choice | None:
        """The same where other pods matter: those that are in place to `beyond`, if there are such plugins."""
        prepared = self._prepared(beyond, pod, snapshot)
        if not prepared.status.ok:
            return None
        known = classes.of(pod, snapshot)
        if known is None:
            return None
        passes = known.passes if beyond is None else _passing(beyond, known, pod, snapshot, prepared)
        if nominations:
            crowded = self._crowded(nominations, passes, known, pod, snapshot, prepared, beyond)
            if len(crowded):
                passes = passes.copy()
                passes[crowded] = False
        part = known.among(passes)
        nodes = part.nodes
        if not len(nodes):
            return None
        added = None if beyond is None else _scores(beyond, part, pod, snapshot, prepared)
        if passes is not known.passes:
            total = known.totals_among(pod, passes, nodes)
        elif added is None:
            return Choice(tie(known.total), snapshot.count, len(nodes))
        else:
            total = known.total if len(nodes) == snapshot.count else known.total.take(nodes)
        if added is not None:
            total = total + added
        return Choice(int(nodes[tie(total)]), snapshot.count, len(nodes))

    def _prepared(self, beyond: _Beyond | None, pod: PodInfo, snapshot: Snapshot) -> Prepared:
        if beyond is None:
            return self._beyond(pod).unconcerned
        return cycle.prepare(beyond.pre_filters, pod, snapshot)

    def _crowded(
        self,
        nominations: Nominations,
        passes: Mask,
        known: PodClass,
        pod: PodInfo,
        snapshot: Snapshot,
        prepared: Prepared,
        beyond: _Beyond | None,
    ) -> Indices:
        """Those of the nodes that pass where pods that were promised them leave no room.

        Without `beyond` nothing concerns the pod but what is on a node.
        """
        local = beyond is None
        if local and known.crowded is not None and known.crowded.holds(nominations, snapshot):
            return known.crowded.nodes
        unheard = () if pod.has_claims else self._unheard
        everything = Prepared(
            {**known.states, **prepared.states},
            known.standing.unfiltered.union(prepared.skipped, unheard, () if beyond is None else beyond.left_out),
            prepared.only,
        )
        nodes = cycle.crowded(self._profile, pod, snapshot, everything, nominations, passes)
        if local and isinstance(nominations, Promised):
            known.crowded = Crowded(nominations, nominations.version, snapshot.log_position, nodes)
        return nodes


def _have_a_say(beyond: _Beyond, part: Part, pod: PodInfo, snapshot: Snapshot, prepared: Prepared) -> bool:
    """Whether one of the plugins scores the pod."""
    view = snapshot.at(part)
    skipped = {
        plugin.name
        for plugin in beyond.pre_scores
        if call(plugin, "PreScore", plugin.pre_score, prepared.states.get(plugin.name), pod, view).code is Code.SKIP
    }
    return any(weighted.name not in skipped for weighted in beyond.scores)


def _passing(beyond: _Beyond, known: PodClass, pod: PodInfo, snapshot: Snapshot, prepared: Prepared) -> Mask:
    """The class's own mask where no other plugin narrows it."""
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


def _scores(beyond: _Beyond, part: Part, pod: PodInfo, snapshot: Snapshot, prepared: Prepared) -> Totals | None:
    """(feasible,): the plugins' shares in the totals of these nodes; None if they have none."""
    if len(part.nodes) < 2 or not beyond.scores:  # the only one is taken unscored
        return None
    view = snapshot if len(part.nodes) == snapshot.count else snapshot.at(part)
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
            share = _share(weighted, states.get(weighted.name), pod, view, beyond.width)
            added = share if added is None else added + share
    return added


def _share(weighted: Weighted, state: Any, pod: PodInfo, view: Snapshot, width: type[np.signedinteger[Any]]) -> Totals:
    """What one plugin adds to the total of each node of the view: all of them feasible."""
    grading = weighted.grading
    if grading is None:
        return cycle.share(weighted, state, pod, view).astype(width, copy=False)
    grades = call(grading, "Score", grading.grades, state, pod, view)
    worth = call(grading, "NormalizeScore", grading.normalize, state, pod, grades.there)
    cycle.check_scores(weighted.name, worth)
    shares: Totals = grades.replaced((worth * weighted.weight).astype(width, copy=False))
    return shares
