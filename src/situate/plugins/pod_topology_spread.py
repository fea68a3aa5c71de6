"""PodTopologySpread: how evenly pods stand over zones, hosts and the like (upstream plugins/podtopologyspread).

`pod_topology_spread_rules` says which pods count where, `pod_topology_spread_grid` keeps where nodes stand by that,
`pod_topology_spread_hints` says what wakes a refused pod.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from situate.framework.plugin_api.compact_scores import Grades
from situate.framework.plugin_api.events import EventHint
from situate.framework.plugin_api.plugin import HIGHEST, SKIPPED, PreFiltered, PreScored, Reads, Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.pod.terms import SpreadConstraint, spread_constraint
from situate.framework.results.status import Code
from situate.framework.results.verdict import Indices, Mask, Verdict, refuse_in_turn
from situate.framework.snapshot.node_table import take
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.pods import TopologySpreadConstraint
from situate.plugins.default_selector import default_selector
from situate.plugins.pod_topology_spread_args import PodTopologySpreadArgs
from situate.plugins.pod_topology_spread_grid import Grids
from situate.plugins.pod_topology_spread_hints import hints
from situate.plugins.pod_topology_spread_rules import NAME, Counts, Rule, Rules, rules_of

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
_SYSTEM: Final = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway"),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway"),
)
_ROWS: Final = 64
"""Domains of a grid at most: it is for those that are few, such as zones."""
_UNEVEN: Final = "node(s) didn't match pod topology spread constraints"
_UNLABELLED: Final = _UNEVEN + " (missing required label)"


@dataclass(frozen=True, slots=True, eq=False)
class SpreadState:
    """What Filter looks at."""

    rules: tuple[Rule, ...]
    counts: tuple[Counts, ...]
    """Of each rule; copied before it is changed."""


@dataclass(frozen=True, slots=True, eq=False)
class EvennessState:
    """What Score and NormalizeScore look at."""

    rules: tuple[Rule, ...]
    weights: tuple[float, ...]
    ignored: Mask | None
    """(feasible nodes,): those that lack a key; None is none of them."""
    host: int | None
    """The place of the rule about hosts, where a grid of hosts by domains of the other rule says all."""


class PodTopologySpread:
    """Refuses nodes where a hard constraint's skew would be too large; prefers nodes that even soft ones out."""

    name = NAME
    reads = Reads.CLUSTER
    arguments = PodTopologySpreadArgs

    def __init__(self, arguments: PodTopologySpreadArgs = PodTopologySpreadArgs()) -> None:  # noqa: B008  # frozen
        self._system = arguments.defaulting_type == "System"
        wires = _SYSTEM if self._system else arguments.default_constraints
        self._defaults = tuple(
            replace(spread_constraint(wire, {}, f"defaultConstraints[{number}]"), implied=True)
            for number, wire in enumerate(wires)
        )
        self._hard_defaults = any(each.hard for each in self._defaults)

    def concerned(self, pod: PodInfo, snapshot: Snapshot) -> bool:
        """Whether there are constraints for the pod, its own or the profile's."""
        if pod.spread:
            return True
        return bool(self._defaults) and default_selector(pod, snapshot.catalog, snapshot.nodes) is not None

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:
        """Skipped for a pod without hard constraints."""
        if not (pod.spread or self._hard_defaults):
            return SKIPPED
        rules = self._rules(pod, snapshot)
        if rules is None or not rules.hard:
            return SKIPPED
        return PreFiltered(state=SpreadState(rules.hard, tuple(snapshot.tally(rule.question) for rule in rules.hard)))

    def add_pod(self, state: SpreadState, pod: PodInfo, other: PodInfo, node: int, snapshot: Snapshot) -> SpreadState:  # noqa: ARG002
        return _moved(state, pod, other, node, 1)

    def remove_pod(
        self,
        state: SpreadState,
        pod: PodInfo,
        other: PodInfo,
        node: int,
        snapshot: Snapshot,  # noqa: ARG002
    ) -> SpreadState:
        return _moved(state, pod, other, node, -1)

    def filter(self, state: SpreadState, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        """By the first constraint that is not met: unresolvable where its key is missing, else unschedulable."""
        refusals: list[tuple[Mask, str, Code]] = []
        for rule, counts in zip(state.rules, state.counts, strict=True):
            constraint = rule.constraint
            key = constraint.topology_key
            own = int(constraint.selector.matches(pod.labels))
            full = counts > constraint.max_skew + rule.least(counts) - own
            if not rule.domains.complete:
                missing = snapshot.domain_of_node(key) < 0
                refusals.append((missing, _UNLABELLED, Code.UNRESOLVABLE))
            refusals.append((snapshot.over_nodes(key, full, False), _UNEVEN, Code.UNSCHEDULABLE))
        return refuse_in_turn(*refusals)

    def pre_score(self, state: object, pod: PodInfo, snapshot: Snapshot) -> PreScored:  # noqa: ARG002
        """Skipped for a pod without soft constraints, its own or the profile's."""
        rules = self._rules(pod, snapshot)
        if rules is None or not rules.soft:
            return PreScored(Code.SKIP)
        return PreScored(state=snapshot.plan((NAME, rules), lambda: _evenness(rules, snapshot)))

    def score(self, state: EvennessState, pod: PodInfo, snapshot: Snapshot) -> Scores:
        """The weighted number of pods that stand in the node's domains; the lower the better."""
        return self.grades(state, pod, snapshot).by_node()

    def grades(self, state: EvennessState, pod: PodInfo, snapshot: Snapshot) -> Grades:  # noqa: ARG002
        """The same."""
        if state.host is not None:
            return _by_grid(state, state.host, snapshot)
        parts = [_part(rule, weight, snapshot) for rule, weight in zip(state.rules, state.weights, strict=True)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        if state.ignored is None:
            return Grades(_rounded(total.values), total.of_node, total.which())
        raw = _rounded(total.by_node())
        raw[state.ignored] = 0
        return Grades(raw)

    def normalize(self, state: EvennessState, pod: PodInfo, raw: Scores) -> Scores:  # noqa: ARG002
        """The lowest raw score becomes 100; nodes that lack a key have 0 and count for nothing."""
        scored = raw if state.ignored is None else raw[~state.ignored]
        if not len(scored):
            return np.zeros_like(raw)
        lowest, highest = int(scored.min()), int(scored.max())
        if highest == 0:
            scores = np.full_like(raw, HIGHEST)
        else:
            scores = HIGHEST * (highest + lowest) - HIGHEST * raw
            scores //= highest
        if state.ignored is not None:
            scores[state.ignored] = 0
        return scores

    def events(self) -> tuple[EventHint, ...]:
        return hints(self._hard)

    def _hard(self, pod: PodInfo) -> tuple[SpreadConstraint, ...] | None:
        """The hard constraints in force, without the selector that the defaults take from elsewhere; None if unsure."""
        if pod.spread:
            return tuple(each for each in pod.spread if each.hard)
        return None if self._hard_defaults else ()

    def _rules(self, pod: PodInfo, snapshot: Snapshot) -> Rules | None:
        """The pod's own constraints; else the profile's, with the selector of whatever the pod belongs to."""
        nodes, template, spread = snapshot.nodes, pod.template, pod.spread
        if spread:
            return nodes.plan(
                (self, template, id(spread)),
                lambda: replace(rules_of(spread, template, nodes, demanding=True), heeded=(spread,)),
            )
        if not self._defaults:
            return None
        selector = default_selector(pod, snapshot.catalog, nodes)
        if selector is None:
            return None
        constraints = self._defaults

        def build() -> Rules:
            filled = (replace(each, selector=selector) for each in constraints)
            rules = rules_of(filled, template, nodes, demanding=not self._system)
            return replace(rules, heeded=(selector,))

        return nodes.plan((self, template, id(selector)), build)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """What a constraint adds for each node: zones are few, and so are the pods of one kind on a host."""

    values: NDArray[np.float64]
    of_node: Indices | None = None
    """(nodes,): the place of each node's value; None if the values are the nodes' own."""
    present: Mask | None = None
    """Which of the values some node has; None if that has not been counted."""

    def __add__(self, other: _Part) -> _Part:
        """Node by node; each pair of values is added once, if there are fewer of them than nodes."""
        if self.of_node is not None and other.of_node is not None:
            few = len(other.values)
            pairs = len(self.values) * few
            if pairs < len(self.of_node):
                return _Part(np.add.outer(self.values, other.values).ravel(), self.of_node * few + other.of_node)
        return _Part(self.by_node() + other.by_node())

    def which(self) -> Mask | None:
        """Which of the values some node has; None is all of them."""
        if self.present is None and self.of_node is not None:
            found = np.zeros(len(self.values), dtype=np.bool_)
            found[self.of_node] = True
            return found
        return self.present

    def by_node(self) -> NDArray[np.float64]:
        """(nodes,)"""
        return self.values if self.of_node is None else self.values.take(self.of_node)


def _part(rule: Rule, weight: float, snapshot: Snapshot) -> _Part:
    """Nothing where the constraint's key is missing."""
    key, skew = rule.constraint.topology_key, float(rule.constraint.max_skew - 1)
    if key == HOSTNAME:
        here = take(snapshot.tally(rule.here), snapshot.chosen).astype(np.intp, copy=False)
        most = int(here.max(initial=0))
        counts = np.arange(most + 1)
        of_node = here if rule.domains.complete else np.where(snapshot.domain_of_node(key) < 0, most + 1, here)
        present = None
    else:
        counts = snapshot.tally(rule.question)
        of_node, present = snapshot.place_of_node(key), snapshot.present(key)
    return _Part(_worth(counts, weight, skew), of_node, present)


def _worth(counts: Counts, weight: float, skew: float) -> NDArray[np.float64]:
    """What each count is worth, and 0 behind them."""
    values = np.zeros(len(counts) + 1)
    values[:-1] = counts
    values *= weight
    values += skew
    values[-1] = 0.0
    return values


def _by_grid(state: EvennessState, host: int, snapshot: Snapshot) -> Grades:
    """What the parts of both rules come to, without looking at each node."""
    hosts, zones = state.rules[host], state.rules[1 - host]
    here = take(snapshot.tally(hosts.here), snapshot.chosen)
    domain = snapshot.place_of_node(zones.constraint.topology_key)
    grid = snapshot.nodes.plan((NAME, "grids"), Grids).of(hosts.here, domain, zones.domains.count + 1, here)
    rows = _worth(snapshot.tally(zones.question), state.weights[1 - host], float(zones.constraint.max_skew - 1))
    columns = _worth(np.arange(grid.columns), state.weights[host], float(hosts.constraint.max_skew - 1))
    return Grades(_rounded(np.add.outer(rows, columns[:-1]).ravel()), grid.cell, grid.present)


def _evenness(rules: Rules, snapshot: Snapshot) -> EvennessState:
    """What weighs how much depends on which nodes are compared, not on the pods there."""
    ignored = None if rules.lacking is None else take(rules.lacking, snapshot.chosen)
    if ignored is not None and not ignored.any():
        ignored = None
    weights = tuple(math.log(_size(rule, snapshot, ignored) + 2) for rule in rules.soft)
    host = _host(rules.soft) if ignored is None and snapshot.remembers else None
    return EvennessState(rules.soft, weights, ignored, host)


def _host(rules: tuple[Rule, ...]) -> int | None:
    """The place of a rule about hosts, which all nodes are, beside one about a few domains."""
    if len(rules) != 2:
        return None
    for place, rule in enumerate(rules):
        other = rules[1 - place]
        few = other.constraint.topology_key != HOSTNAME and other.domains.count <= _ROWS
        if few and rule.constraint.topology_key == HOSTNAME and rule.domains.complete:
            return place
    return None


def _moved(state: SpreadState, pod: PodInfo, other: PodInfo, node: int, sign: int) -> SpreadState:
    """The state after a pod has come to the node, or gone.

    As upstream (filtering.go updateWithPod) also one that is terminating, or that an empty selector means, although
    neither was counted before.
    """
    counts = list(state.counts)
    for number, rule in enumerate(state.rules):
        meant = other.namespace == pod.namespace and rule.constraint.selector.matches(other.labels)
        if meant and rule.counts_at(node):
            changed = counts[number].copy()
            changed[rule.domains.of_node[node]] += sign
            counts[number] = changed
    return SpreadState(state.rules, tuple(counts))


def _size(rule: Rule, snapshot: Snapshot, ignored: Mask | None) -> int:
    """So many domains have a node among those that are scored; of hosts, so many nodes are scored.

    Nodes without the key count as one domain more, where they are scored at all (upstream initPreScoreState).
    """
    key = rule.constraint.topology_key
    if key == HOSTNAME:
        return snapshot.count if ignored is None else snapshot.count - int(np.count_nonzero(ignored))
    if ignored is None:
        return int(np.count_nonzero(snapshot.present(key)))
    return len(np.unique(snapshot.place_of_node(key)[~ignored]))


def _rounded(values: NDArray[np.float64]) -> Scores:
    """Half away from zero; none is negative."""
    whole = np.floor(values)
    whole += values - whole >= 0.5
    return whole.astype(np.int64)
