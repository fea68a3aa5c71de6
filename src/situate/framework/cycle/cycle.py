"""The scheduling cycle of one Pod over immutable values: feasible nodes, the best one, and reasons.

This is the plain path: it evaluates every plugin each time. The faster path in
`situate.framework.class_cache.pod_class_cache` gives the same answers, and the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from situate.framework.plugin_api.plugin import (
    HIGHEST,
    Diagnosis,
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    Reads,
    Scores,
)
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import Profile, WeightedPlugin
from situate.framework.results.status import SUCCESS, Code, Status
from situate.framework.results.verdict import Indices, Mask, Refusals, Verdict, first_refusals
from situate.framework.snapshot.nominated_pods import NominatedPods
from situate.framework.snapshot.snapshot import Snapshot

_FEW: Final = 16
"""Up to this number, a Python loop is cheaper than the cost of a NumPy call."""
NO_NODES: Final = Status(Code.UNRESOLVABLE, ("no nodes available to schedule pods",))

PodsByNominatedNode = Mapping[int, Sequence[PodInfo]]
"""Other Pods that are nominated to a node, by the node's index in the whole table."""


class PluginFailed(Exception):
    """A plugin raised an exception or returned an invalid answer; ends only the Pod's cycle, with an error."""

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        super().__init__(f'running {point} plugin "{plugin}": {problem}')
        self.plugin = plugin
        self.point = point


class PreFilterResults(msgspec.Struct, frozen=True, eq=False):
    """The results of PreFilter; created for each Pod with plugins that read other Pods."""

    states: Mapping[str, Any]
    skipped: frozenset[str]
    only: Mask | None = None
    """(nodes,): the only nodes that can be feasible."""
    restricting: tuple[str, ...] = ()
    """The plugins that set `only`."""
    status: Status = SUCCESS


NO_PRE_FILTER_RESULTS: Final = PreFilterResults({}, frozenset())
"""For a cycle without PreFilter plugins."""


@dataclass(frozen=True, slots=True, eq=False)
class Feasibility:
    """The feasible nodes of a Pod."""

    snapshot: Snapshot
    prepared: PreFilterResults
    passes: Mask
    """(nodes,)"""
    verdicts: tuple[tuple[str, Verdict], ...]
    """In the order of the calls, over all nodes."""
    leading_verdicts: Callable[[], Sequence[tuple[str, Verdict]]] = tuple
    """Verdicts that come before `verdicts` if only extenders refuse the remaining nodes.

    If no node passes, `find_feasible` includes them already.
    """

    def diagnosis(self) -> Diagnosis:
        """Return the reasons why the other nodes are infeasible."""
        prepared = self.prepared
        if not prepared.status.ok:
            return Diagnosis(self.snapshot, status=prepared.status)
        left = np.ones(self.snapshot.count, dtype=np.bool_)
        refused: list[tuple[str, Refusals, Mask]] = []
        if prepared.only is not None:
            plugin = ", ".join(prepared.restricting)
            text = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(prepared.restricting))}]"
            where = ~prepared.only
            code = np.where(where, np.uint8(Code.UNRESOLVABLE), np.uint8(Code.SUCCESS))
            refused.append((plugin, Refusals(code, ((text, np.flatnonzero(where)),)), where))
            left &= prepared.only
        return Diagnosis(self.snapshot, (*refused, *first_refusals(self.verdicts, left)))


def prepare(plugins: Sequence[PreFilterPlugin], pod: PodInfo, snapshot: Snapshot) -> PreFilterResults:
    """Run PreFilter of these plugins, in order.

    An unresolvable rejection ends the run at once. Any other rejection is stored, and the remaining plugins run.
    """
    states: dict[str, Any] = {}
    skipped: set[str] = set()
    only: Mask | None = None
    elsewhere: frozenset[str] = frozenset()
    restricting: list[str] = []
    rejection = SUCCESS
    for plugin in plugins:
        name = plugin.name
        found = call(plugin, "PreFilter", plugin.pre_filter, pod, snapshot)
        code = found.status.code
        if code is Code.SKIP:
            skipped.add(name)
            continue
        if code.rejects:
            status = Status(code, found.status.reasons, name)
            if code is Code.UNRESOLVABLE:
                return PreFilterResults(states, frozenset(skipped), status=status)
            rejection = status if rejection.ok else rejection
        elif code is not Code.SUCCESS:
            raise PluginFailed(name, "PreFilter", f"returned {code.title}; allowed: Success, Skip or a rejection")
        states[name] = found.state
        if found.only is not None:
            restricting.append(name)
            elsewhere = found.elsewhere if only is None else elsewhere & found.elsewhere
            only = found.only if only is None else only & found.only
            if not only.any() and not elsewhere:
                return PreFilterResults(states, frozenset(skipped), status=_no_node_status(restricting))
    return PreFilterResults(states, frozenset(skipped), only, tuple(restricting), rejection)


def _no_node_status(restricting: Sequence[str]) -> Status:
    named = sorted(restricting)
    text = (
        f"node(s) didn't satisfy plugin {named[0]}"
        if len(named) == 1
        else f"node(s) didn't satisfy plugin(s) [{' '.join(named)}] simultaneously"
    )
    return Status(Code.UNRESOLVABLE, (text,), named[0])


def find_feasible(
    profile: Profile, pod: PodInfo, snapshot: Snapshot, nominations: PodsByNominatedNode | None = None
) -> Feasibility:
    """Run PreFilter and Filter over all nodes. `nominations` has only Pods of at least this Pod's priority."""
    prepared = prepare(profile.pre_filter, pod, snapshot)
    if not prepared.status.ok:
        return Feasibility(snapshot, prepared, np.zeros(snapshot.count, dtype=np.bool_), ())
    verdicts = run_filters(profile, pod, snapshot, prepared)
    passes = np.ones(snapshot.count, dtype=np.bool_) if prepared.only is None else prepared.only.copy()
    for _, verdict in verdicts:
        passes &= verdict.passes
    if not nominations:
        return Feasibility(snapshot, prepared, passes, verdicts)
    told = verdicts_with_nominated(profile, pod, snapshot, prepared, nominations, passes)
    verdicts = (*verdicts, *told)
    for _, verdict in told:
        passes &= verdict.passes
    crowded = partial(_verdicts_of_failed_nodes, profile, pod, snapshot, prepared, verdicts, nominations)
    if passes.any():
        return Feasibility(snapshot, prepared, passes, verdicts, crowded)
    return Feasibility(snapshot, prepared, passes, (*crowded(), *verdicts))


def fits(profile: Profile, pod: PodInfo, snapshot: Snapshot, nominations: PodsByNominatedNode, node: int) -> bool:
    """Return whether the Pod fits on this one node. The snapshot has all nodes."""
    prepared = prepare(profile.pre_filter, pod, snapshot)
    if not prepared.status.ok or (prepared.only is not None and not prepared.only[node]):
        return False
    alone = snapshot.select_nodes(np.array([node], dtype=np.intp))
    if not all(verdict.passes[0] for _, verdict in run_filters(profile, pod, alone, prepared)):
        return False
    where = np.zeros(snapshot.count, dtype=np.bool_)
    where[node] = True
    return all(
        verdict.passes[node]
        for _, verdict in verdicts_with_nominated(profile, pod, snapshot, prepared, nominations, where)
    )


def _verdicts_of_failed_nodes(
    profile: Profile,
    pod: PodInfo,
    snapshot: Snapshot,
    prepared: PreFilterResults,
    verdicts: Sequence[tuple[str, Verdict]],
    nominations: PodsByNominatedNode,
) -> list[tuple[str, Verdict]]:
    """Return the verdicts of nodes with nominated Pods, for nodes that fail without those Pods too.

    As upstream, these verdicts come first. Nodes that a static filter refuses are left out.
    """
    settled = np.zeros(snapshot.count, dtype=np.bool_) if prepared.only is None else ~prepared.only
    for plugin, (_, verdict) in zip(_active_filters(profile, prepared), verdicts, strict=False):
        if getattr(plugin, "reads", Reads.CLUSTER) is not Reads.NODE:
            break
        settled |= ~verdict.passes
    return verdicts_with_nominated(profile, pod, snapshot, prepared, nominations, ~settled)


def verdicts_with_nominated(
    profile: Profile,
    pod: PodInfo,
    snapshot: Snapshot,
    prepared: PreFilterResults,
    nominations: PodsByNominatedNode,
    where: Mask,
) -> list[tuple[str, Verdict]]:
    """Return the filters' verdicts on the nodes in the mask that have nominated Pods, with those Pods added.

    The verdicts are over all nodes. All these nodes are evaluated together if only amounts on a node matter.
    """
    if isinstance(nominations, NominatedPods) and _depends_only_on_amounts(profile, pod, prepared):
        nodes = nominations.nodes
        nodes = nodes[where[nodes]]
        if not len(nodes):
            return []
        crowded = snapshot.with_nominated_pods(nominations, nodes)
        return [
            (name, _over_all_nodes(verdict, nodes, snapshot.count))
            for name, verdict in run_filters(profile, pod, crowded, prepared)
        ]
    return [
        told
        for node, others in nominations.items()
        if where[node]
        for told in _verdicts_on_node(profile, pod, snapshot, prepared, node, others)
    ]


def nodes_without_capacity(
    profile: Profile,
    pod: PodInfo,
    snapshot: Snapshot,
    prepared: PreFilterResults,
    nominations: PodsByNominatedNode,
    passes: Mask,
) -> Indices:
    """Return the passing nodes where nominated Pods leave too little capacity."""
    if not (isinstance(nominations, NominatedPods) and _depends_only_on_amounts(profile, pod, prepared)):
        fits = np.ones(snapshot.count, dtype=np.bool_)
        for _, verdict in verdicts_with_nominated(profile, pod, snapshot, prepared, nominations, passes):
            fits &= verdict.passes
        return np.flatnonzero(~fits)
    nodes = nominations.nodes
    nodes = nodes[passes[nodes]]
    if not len(nodes):
        return nodes
    laden = snapshot.with_nominated_pods(nominations, nodes)
    fits = np.ones(len(nodes), dtype=np.bool_)
    for plugin in _active_filters(profile, prepared):
        if getattr(plugin, "reads", Reads.CLUSTER) is Reads.LOAD:  # nominated Pods do not change other filters
            fits &= call(plugin, "Filter", plugin.filter, prepared.states.get(plugin.name), pod, laden).passes
    return nodes[~fits]


def _depends_only_on_amounts(profile: Profile, pod: PodInfo, prepared: PreFilterResults) -> bool:
    """Return whether only amounts and counts of other Pods on a node affect this Pod."""
    return not (pod.template.host_ports or profile.allot) and all(
        getattr(plugin, "reads", Reads.CLUSTER) is not Reads.CLUSTER for plugin in _active_filters(profile, prepared)
    )


def run_filters(
    profile: Profile, pod: PodInfo, snapshot: Snapshot, prepared: PreFilterResults
) -> tuple[tuple[str, Verdict], ...]:
    """Run Filter, in order, over the nodes of the snapshot, which may be a subset."""
    verdicts = []
    for plugin in _active_filters(profile, prepared):
        state = prepared.states.get(plugin.name)
        verdicts.append((plugin.name, call(plugin, "Filter", plugin.filter, state, pod, snapshot)))
    return tuple(verdicts)


def _active_filters(profile: Profile, prepared: PreFilterResults) -> list[FilterPlugin]:
    """Return the filters that PreFilter has not dropped, in order."""
    return [plugin for plugin in profile.filter if plugin.name not in prepared.skipped]


def _verdicts_on_node(
    profile: Profile, pod: PodInfo, snapshot: Snapshot, prepared: PreFilterResults, node: int, others: Sequence[PodInfo]
) -> list[tuple[str, Verdict]]:
    """Return the filters' verdicts on one node with its nominated Pods added, as verdicts over all nodes."""
    alone = snapshot.single_node(node)
    for other in others:
        prepared = with_pod(profile, pod, prepared, other, node, snapshot)
        alone = alone.assume(allot_units(profile, other, alone), 0)
    here = np.array([node], dtype=np.intp)
    return [
        (name, _over_all_nodes(verdict, here, snapshot.count))
        for name, verdict in run_filters(profile, pod, alone, prepared)
    ]


def _over_all_nodes(verdict: Verdict, nodes: Indices, count: int) -> Verdict:
    """Return a verdict over some nodes as one over all."""
    passes = np.ones(count, dtype=np.bool_)
    passes[nodes] = verdict.passes

    def told() -> Refusals:
        found = verdict.refusals()
        code = np.zeros(count, dtype=np.uint8)
        code[nodes] = found.code
        return Refusals(code, tuple((text, nodes[refused]) for text, refused in found.reasons if len(refused)))

    return Verdict(passes, told)


def with_pod(
    profile: Profile, pod: PodInfo, prepared: PreFilterResults, other: PodInfo, node: int, snapshot: Snapshot
) -> PreFilterResults:
    """Return the PreFilter result as if `other` were on the node too; `node` is an index of the whole table."""
    return _with_changed_states(profile, pod, prepared, other, node, snapshot, "add_pod")


def without_pod(
    profile: Profile, pod: PodInfo, prepared: PreFilterResults, other: PodInfo, node: int, snapshot: Snapshot
) -> PreFilterResults:
    """Return the PreFilter result as if `other` were not on the node."""
    return _with_changed_states(profile, pod, prepared, other, node, snapshot, "remove_pod")


def _with_changed_states(
    profile: Profile,
    pod: PodInfo,
    prepared: PreFilterResults,
    other: PodInfo,
    node: int,
    snapshot: Snapshot,
    method: str,
) -> PreFilterResults:
    states = dict(prepared.states)
    for plugin in profile.pre_filter:
        name = plugin.name
        change = getattr(plugin, method, None)  # isinstance with a protocol costs as much as all the rest
        if name in states and change is not None:
            states[name] = call(plugin, "PreFilterExtensions", change, states[name], pod, other, node, snapshot)
    return PreFilterResults(states, prepared.skipped, prepared.only, prepared.restricting, prepared.status)


def allot_units(profile: Profile, pod: PodInfo, node: Snapshot) -> PodInfo:
    """Return the Pod as it counts on this node, the only one of the snapshot.

    The first plugin that allocates units decides the Pod's annotations.
    """
    for plugin in profile.allot:
        annotations = call(plugin, "Allot", plugin.allot, pod, node)
        if annotations:
            return pod.with_annotations(annotations)
    return pod


def score(profile: Profile, pod: PodInfo, feasibility: Feasibility, feasible: Indices) -> NDArray[np.int64]:
    """Return (feasible,): the weighted sum of normalized scores. Without Score plugins every node has 1."""
    if not profile.score:
        return np.ones(len(feasible), dtype=np.int64)
    total = np.zeros(len(feasible), dtype=np.int64)
    for _, weighted in scores_by_plugin(profile, pod, feasibility, feasible):
        total += weighted
    return total


def scores_by_plugin(
    profile: Profile, pod: PodInfo, feasibility: Feasibility, feasible: Indices
) -> list[tuple[str, NDArray[np.int64]]]:
    """Return each Score plugin's share of the total, for the feasible nodes."""
    snapshot = feasibility.snapshot.select_nodes(feasible)
    states, skipped = pre_score(profile, pod, feasibility.prepared, snapshot)
    return [
        (weighted.name, weighted_scores(weighted, states.get(weighted.name), pod, snapshot))
        for weighted in profile.score
        if weighted.name not in skipped
    ]


def pre_score(
    profile: Profile, pod: PodInfo, prepared: PreFilterResults, snapshot: Snapshot
) -> tuple[dict[str, Any], frozenset[str]]:
    """Run PreScore over a snapshot of the feasible nodes; return the states and the plugins that skip."""
    states = dict(prepared.states)
    skipped: set[str] = set()
    for plugin in profile.pre_score:
        name = plugin.name
        found = call(plugin, "PreScore", plugin.pre_score, states.get(name), pod, snapshot)
        if found.code is Code.SKIP:
            skipped.add(name)
        elif found.code is not Code.SUCCESS:
            raise PluginFailed(name, "PreScore", f"returned {found.code.title}; allowed: Success or Skip")
        else:
            states[name] = found.state
    return states, frozenset(skipped)


def weighted_scores(weighted: WeightedPlugin, state: Any, pod: PodInfo, snapshot: Snapshot) -> Scores:
    """Return the weighted scores of one plugin for each node of the snapshot, all of them feasible."""
    return raw_and_normalized(weighted, state, pod, snapshot)[1] * weighted.weight


def raw_and_normalized(weighted: WeightedPlugin, state: Any, pod: PodInfo, snapshot: Snapshot) -> tuple[Scores, Scores]:
    """Return one plugin's scores before and after NormalizeScore; the same twice without normalization."""
    plugin = weighted.plugin
    raw: Scores = call(plugin, "Score", plugin.score, state, pod, snapshot)
    scores = raw
    if weighted.normalizer is not None:
        scores = call(plugin, "NormalizeScore", weighted.normalizer.normalize, state, pod, raw)
    check_scores(weighted.name, scores)
    return raw, scores


def check_scores(name: str, scores: Scores) -> None:
    if not len(scores):
        return
    if scores.dtype == np.int64:
        whole = scores.view(np.uint64)  # a negative score becomes very large
        if (max(whole.tolist()) if len(whole) <= _FEW else whole.max()) <= HIGHEST:
            return
    if not (scores.min() >= 0 and scores.max() <= HIGHEST):
        found = f"{scores.min()} to {scores.max()}"
        raise PluginFailed(name, "NormalizeScore", f"scores are {found}; allowed: 0 to {HIGHEST}")


def call(plugin: Plugin, point: str, method: Any, *arguments: Any) -> Any:
    """Call the plugin, and turn any exception into `PluginFailed` with its name."""
    try:
        return method(*arguments)
    except PluginFailed:
        raise
    except Exception as problem:
        raise PluginFailed(plugin.name, point, f"{type(problem).__name__}: {problem}") from problem
