"""The constraints of PodTopologySpread, compiled for one table of nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from situate.framework.pod.keys import Key
from situate.framework.pod.pods import PodInfo, PodTemplate
from situate.framework.pod.terms import SpreadConstraint
from situate.framework.results.verdict import Mask
from situate.framework.snapshot.labels import EACH_NODE, Domains
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.topology_counts import TallyDefinition, Weight
from situate.objects.selection.label_selectors import Selector
from situate.plugins.node_affinity import nodes_matching_affinity
from situate.plugins.taint_toleration import untolerated_taint

NAME = "PodTopologySpread"

Counts = NDArray[np.int64]
"""(domains,): numbers of Pods."""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One constraint for one kind of Pod."""

    constraint: SpreadConstraint
    domain_tally: TallyDefinition
    """The number of Pods that count in each domain."""
    node_tally: TallyDefinition
    """The number of the constraint's Pods on each node, eligible or not."""
    domains: Domains
    eligible: Mask | None
    """(domains,): the domains with a node that counts; None means all."""
    number: int
    """The number of eligible domains."""

    def least_count(self, counts: Counts) -> int:
        """Return the smallest count of an eligible domain; 0 if there are fewer domains than `minDomains`."""
        if self.number < self.constraint.min_domains:
            return 0
        return int((counts if self.eligible is None else counts[self.eligible]).min())

    def counts_at(self, node: int) -> bool:
        """Return whether Pods on this node, an index of the whole table, count."""
        eligible = self.domain_tally.eligible
        return self.domains.of_node[node] >= 0 and (eligible is None or bool(eligible[node]))


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """All constraints for one kind of Pod."""

    hard: tuple[Rule, ...]
    soft: tuple[Rule, ...]
    demanding: bool
    """Whether nodes must have the keys of all soft constraints."""
    lacking: Mask | None
    """(nodes,): the nodes that lack a required key; None means no node."""
    key_objects: tuple[object, ...]
    """The objects whose ids are in the plan's key."""


def rules_of(
    constraints: Iterable[SpreadConstraint], template: PodTemplate, nodes: NodeTable, *, demanding: bool
) -> Rules:
    """Compile the constraints for these nodes."""
    listed = tuple(constraints)
    hard = tuple(each for each in listed if each.hard)
    soft = tuple(each for each in listed if not each.hard)
    return Rules(
        tuple(_compile_rule(each, template, nodes, hard) for each in hard),
        tuple(_compile_rule(each, template, nodes, soft if demanding else ()) for each in soft),
        demanding,
        _nodes_without_key(soft, nodes) if demanding else None,
        (),
    )


def _nodes_without_key(soft: tuple[SpreadConstraint, ...], nodes: NodeTable) -> Mask | None:
    lacking = np.zeros(len(nodes), dtype=np.bool_)
    for constraint in soft:
        lacking |= nodes.labels.domains(constraint.topology_key).of_node < 0
    return lacking if lacking.any() else None


def _compile_rule(
    constraint: SpreadConstraint, template: PodTemplate, nodes: NodeTable, together: tuple[SpreadConstraint, ...]
) -> Rule:
    """Compile a constraint. Pods count only where a node has the keys of all constraints in `together`."""
    domains = nodes.labels.domains(constraint.topology_key)
    eligible = _eligible_nodes(constraint, template, nodes, tuple(sorted({each.topology_key for each in together})))
    counted = np.zeros(domains.count, dtype=np.bool_)
    counted[domains.of_node[(domains.of_node >= 0) & eligible]] = True
    number = int(np.count_nonzero(counted))
    namespace, selector = template.namespace, constraint.selector
    weight = _weight(namespace, selector)
    asked = (NAME, namespace, selector)
    return Rule(
        constraint,
        TallyDefinition(Key(*asked, constraint.topology_key), constraint.topology_key, weight, eligible),
        TallyDefinition(Key(*asked, EACH_NODE), EACH_NODE, weight),
        domains,
        None if number == domains.count else counted,
        number,
    )


def _eligible_nodes(
    constraint: SpreadConstraint, template: PodTemplate, nodes: NodeTable, keys: tuple[str, ...]
) -> Mask:
    """Return (nodes,): the nodes whose Pods count, by their keys and the constraint's policies."""
    demands = (tuple(sorted(template.node_selector.items())), template.node_terms)
    key = (
        NAME,
        keys,
        demands if constraint.honors_affinity else None,
        template.tolerations if constraint.honors_taints else None,
    )

    def found(nodes: NodeTable) -> Mask:
        counts = np.ones(len(nodes), dtype=np.bool_)
        for each in keys:
            counts &= nodes.labels.domains(each).of_node >= 0
        if constraint.honors_affinity:
            counts &= nodes_matching_affinity(template, nodes)
        if constraint.honors_taints:
            counts &= nodes.where_taints(lambda taints: untolerated_taint(taints, template.tolerations) is None)
        return counts

    return nodes.static(key, found)


def _weight(namespace: str, selector: Selector) -> Weight:
    """Return a weight of 1 for selected Pods. As upstream, an empty selector selects none (countPodsMatchSelector)."""

    def weight(pod: PodInfo) -> int:
        if pod.namespace != namespace or pod.terminating or not selector.requirements:
            return 0
        return int(selector.matches(pod.labels))

    return weight
