"""PodTopologySpread: spreads Pods evenly over zones, hosts and other domains (upstream plugins/podtopologyspread).

`pod_topology_spread_rules` defines which Pods count where. `pod_topology_spread_grid` groups nodes by their counts.
`pod_topology_spread_hints` has the queueing hints.
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
"""Maximum number of domains of a grid, which is for few domains, such as zones."""
_UNEVEN: Final = "node(s) didn't match pod topology spread constraints"
_UNLABELLED: Final = _UNEVEN + " (missing required label)"


@dataclass(frozen=True, slots=True, eq=False)
class SpreadState:
    """The state of Filter."""

    rules: tuple[Rule, ...]
    counts: tuple[Counts, ...]
    """For each rule; copied before a change."""


@dataclass(frozen=True, slots=True, eq=False)
class EvennessState:
    """The state of Score and NormalizeScore."""

    rules: tuple[Rule, ...]
    weights: tuple[float, ...]
    ignored: Mask | None
    """(feasible nodes,): the nodes that lack a key; None means no node."""
    host: int | None
    """The index of the hostname rule, if a grid of hosts by domains of the other rule is sufficient."""


class PodTopologySpread:
    """A Filter plugin for hard spread constraints, and a Score plugin for soft ones."""

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
        """Return whether the Pod has constraints, its own or the profile's."""
        if pod.spread:
            return True
        return bool(self._defaults) and default_selector(pod, snapshot.catalog, snapshot.nodes) is not None

    def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:
        """Count Pods for the hard constraints; skip for a Pod without any."""
        if not (pod.spread or self._hard_defaults):
            return SKIPPED
        rules = self._rules(pod, snapshot)
        if rules is None or not rules.hard:
            return SKIPPED
        return PreFiltered(
            state=SpreadState(rules.hard, tuple(snapshot.tally(rule.domain_tally) for rule in rules.hard))
        )

    def add_pod(self, state: SpreadState, pod: PodInfo, other: PodInfo, node: int, snapshot: Snapshot) -> SpreadState:  # noqa: ARG002
        return _with_pod_change(state, pod, other, node, 1)

    def remove_pod(
        self,
        state: SpreadState,
        pod: PodInfo,
        other: PodInfo,
        node: int,
        snapshot: Snapshot,  # noqa: ARG002
    ) -> SpreadState:
        return _with_pod_change(state, pod, other, node, -1)

    def filter(self, state: SpreadState, pod: PodInfo, snapshot: Snapshot) -> Verdict:
        """Refuse by the first constraint that is not met: unresolvable if its key is missing, else unschedulable."""
        refusals: list[tuple[Mask, str, Code]] = []
        for rule, counts in zip(state.rules, state.counts, strict=True):
            constraint = rule.constraint
            key = constraint.topology_key
            own = int(constraint.selector.matches(pod.labels))
            full = counts > constraint.max_skew + rule.least_count(counts) - own
            if not rule.domains.complete:
                missing = snapshot.domain_of_node(key) < 0
                refusals.append((missing, _UNLABELLED, Code.UNRESOLVABLE))
            refusals.append((snapshot.over_nodes(key, full, False), _UNEVEN, Code.UNSCHEDULABLE))
        return refuse_in_turn(*refusals)

    def pre_score(self, state: object, pod: PodInfo, snapshot: Snapshot) -> PreScored:  # noqa: ARG002
        """Prepare the soft constraints of the Pod or the profile; skip without any."""
        rules = self._rules(pod, snapshot)
        if rules is None or not rules.soft:
            return PreScored(Code.SKIP)
        return PreScored(state=snapshot.plan((NAME, rules), lambda: _evenness_state(rules, snapshot)))

    def score(self, state: EvennessState, pod: PodInfo, snapshot: Snapshot) -> Scores:
        """Return the weighted number of Pods in the node's domains; lower is better."""
        return self.grades(state, pod, snapshot).by_node()

    def grades(self, state: EvennessState, pod: PodInfo, snapshot: Snapshot) -> Grades:  # noqa: ARG002
        """Return the same scores in compact form."""
        if state.host is not None:
            return _grid_scores(state, state.host, snapshot)
        parts = [_addend_of(rule, weight, snapshot) for rule, weight in zip(state.rules, state.weights, strict=True)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        if state.ignored is None:
            return Grades(_round_half_up(total.values), total.of_node, total.present_values())
        raw = _round_half_up(total.by_node())
        raw[state.ignored] = 0
        return Grades(raw)

    def normalize(self, state: EvennessState, pod: PodInfo, raw: Scores) -> Scores:  # noqa: ARG002
        """Normalize so that the lowest score becomes 100. Nodes that lack a key get 0 and do not affect the others."""
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
        return hints(self._hard_constraints)

    def _hard_constraints(self, pod: PodInfo) -> tuple[SpreadConstraint, ...] | None:
        """Return the hard constraints; None if they are the profile's, whose selectors depend on other objects."""
        if pod.spread:
            return tuple(each for each in pod.spread if each.hard)
        return None if self._hard_defaults else ()

    def _rules(self, pod: PodInfo, snapshot: Snapshot) -> Rules | None:
        """Return the rules of the Pod's own constraints, else the profile's with the Pod's default selector."""
        nodes, template, spread = snapshot.nodes, pod.template, pod.spread
        if spread:
            return nodes.plan(
                (self, template, id(spread)),
                lambda: replace(rules_of(spread, template, nodes, demanding=True), key_objects=(spread,)),
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
            return replace(rules, key_objects=(selector,))

        return nodes.plan((self, template, id(selector)), build)


@dataclass(frozen=True, slots=True, eq=False)
class _Addend:
    """The addend of one constraint for each node.

    It has few values: zones are few, and so are Pods of a kind on a host.
    """

    values: NDArray[np.float64]
    of_node: Indices | None = None
    """(nodes,): the index of each node's value; None if the values are the nodes' own."""
    present: Mask | None = None
    """The values that some node has; None if this has not been computed."""

    def __add__(self, other: _Addend) -> _Addend:
        """Add node by node. If there are fewer pairs of values than nodes, each pair is added once."""
        if self.of_node is not None and other.of_node is not None:
            few = len(other.values)
            pairs = len(self.values) * few
            if pairs < len(self.of_node):
                return _Addend(np.add.outer(self.values, other.values).ravel(), self.of_node * few + other.of_node)
        return _Addend(self.by_node() + other.by_node())

    def present_values(self) -> Mask | None:
        """Return the values that some node has; None means all."""
        if self.present is None and self.of_node is not None:
            found = np.zeros(len(self.values), dtype=np.bool_)
            found[self.of_node] = True
            return found
        return self.present

    def by_node(self) -> NDArray[np.float64]:
        """Return (nodes,): the value of each node."""
        return self.values if self.of_node is None else self.values.take(self.of_node)


def _addend_of(rule: Rule, weight: float, snapshot: Snapshot) -> _Addend:
    """Return the addend of a constraint; 0 for nodes that lack its key."""
    key, skew = rule.constraint.topology_key, float(rule.constraint.max_skew - 1)
    if key == HOSTNAME:
        here = take(snapshot.tally(rule.node_tally), snapshot.chosen).astype(np.intp, copy=False)
        most = int(here.max(initial=0))
        counts = np.arange(most + 1)
        of_node = here if rule.domains.complete else np.where(snapshot.domain_of_node(key) < 0, most + 1, here)
        present = None
    else:
        counts = snapshot.tally(rule.domain_tally)
        of_node, present = snapshot.place_of_node(key), snapshot.present_domains(key)
    return _Addend(_addend_values(counts, weight, skew), of_node, present)


def _addend_values(counts: Counts, weight: float, skew: float) -> NDArray[np.float64]:
    """Return the addend for each count, followed by a 0."""
    values = np.zeros(len(counts) + 1)
    values[:-1] = counts
    values *= weight
    values += skew
    values[-1] = 0.0
    return values


def _grid_scores(state: EvennessState, host: int, snapshot: Snapshot) -> Grades:
    """Return the sum of both rules' addends without a computation for each node."""
    hosts, zones = state.rules[host], state.rules[1 - host]
    here = take(snapshot.tally(hosts.node_tally), snapshot.chosen)
    domain = snapshot.place_of_node(zones.constraint.topology_key)
    grid = snapshot.nodes.plan((NAME, "grids"), Grids).updated_grid(
        hosts.node_tally, domain, zones.domains.count + 1, here
    )
    rows = _addend_values(
        snapshot.tally(zones.domain_tally), state.weights[1 - host], float(zones.constraint.max_skew - 1)
    )
    columns = _addend_values(np.arange(grid.columns), state.weights[host], float(hosts.constraint.max_skew - 1))
    return Grades(_round_half_up(np.add.outer(rows, columns[:-1]).ravel()), grid.cell, grid.present)


def _evenness_state(rules: Rules, snapshot: Snapshot) -> EvennessState:
    """Prepare the weights, which depend on the compared nodes and not on their Pods."""
    ignored = None if rules.lacking is None else take(rules.lacking, snapshot.chosen)
    if ignored is not None and not ignored.any():
        ignored = None
    weights = tuple(math.log(_domain_count(rule, snapshot, ignored) + 2) for rule in rules.soft)
    host = _host_rule_index(rules.soft) if ignored is None and snapshot.caches_plans else None
    return EvennessState(rules.soft, weights, ignored, host)


def _host_rule_index(rules: tuple[Rule, ...]) -> int | None:
    """Return the index of a hostname rule for which every node is a domain, next to a rule with few domains."""
    if len(rules) != 2:
        return None
    for place, rule in enumerate(rules):
        other = rules[1 - place]
        few = other.constraint.topology_key != HOSTNAME and other.domains.count <= _ROWS
        if few and rule.constraint.topology_key == HOSTNAME and rule.domains.complete:
            return place
    return None


def _with_pod_change(state: SpreadState, pod: PodInfo, other: PodInfo, node: int, sign: int) -> SpreadState:
    """Return the state after a Pod has been added to the node or removed from it.

    As upstream (filtering.go updateWithPod), this includes terminating Pods and Pods matched by an empty selector,
    although these were not counted before.
    """
    counts = list(state.counts)
    for number, rule in enumerate(state.rules):
        meant = other.namespace == pod.namespace and rule.constraint.selector.matches(other.labels)
        if meant and rule.counts_at(node):
            changed = counts[number].copy()
            changed[rule.domains.of_node[node]] += sign
            counts[number] = changed
    return SpreadState(state.rules, tuple(counts))


def _domain_count(rule: Rule, snapshot: Snapshot, ignored: Mask | None) -> int:
    """Return the number of domains with a scored node; for hostname, the number of scored nodes.

    Nodes without the key count as one more domain, if they are scored at all (upstream initPreScoreState).
    """
    key = rule.constraint.topology_key
    if key == HOSTNAME:
        return snapshot.count if ignored is None else snapshot.count - int(np.count_nonzero(ignored))
    if ignored is None:
        return int(np.count_nonzero(snapshot.present_domains(key)))
    return len(np.unique(snapshot.place_of_node(key)[~ignored]))


def _round_half_up(values: NDArray[np.float64]) -> Scores:
    """Round half away from zero; no value is negative."""
    whole = np.floor(values)
    whole += values - whole >= 0.5
    return whole.astype(np.int64)
