"""The constraints of PodTopologySpread, worked out for one table of nodes: which pods count where."""

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
from situate.framework.snapshot.topology_counts import Question, Weight
from situate.objects.selection.label_selectors import Selector
from situate.plugins.node_affinity import wanted_nodes
from situate.plugins.taint_toleration import untolerated

NAME = "PodTopologySpread"

Counts = NDArray[np.int64]
"""(domains,): pods."""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One constraint of one kind of pod."""

    constraint: SpreadConstraint
    question: Question
    """How many pods count in each domain."""
    here: Question
    """How many of the constraint's pods are on each node, wherever it is."""
    domains: Domains
    eligible: Mask | None
    """(domains,): those with a node that counts; None is all of them."""
    number: int
    """So many eligible domains."""

    def least(self, counts: Counts) -> int:
        """The smallest count of an eligible domain; 0 where there are fewer of these than the constraint wants."""
        if self.number < self.constraint.min_domains:
            return 0
        return int((counts if self.eligible is None else counts[self.eligible]).min())

    def counts_at(self, node: int) -> bool:
        """Whether pods on this node, an index of the whole table, count."""
        eligible = self.question.eligible
        return self.domains.of_node[node] >= 0 and (eligible is None or bool(eligible[node]))


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """All constraints of one kind of pod."""

    hard: tuple[Rule, ...]
    soft: tuple[Rule, ...]
    demanding: bool
    """Whether nodes must have the keys of all soft constraints."""
    lacking: Mask | None
    """(nodes,): those that lack one of these keys although they must have it; None is none of them."""
    heeded: tuple[object, ...]
    """What the key of the plan names by identity."""


def rules_of(
    constraints: Iterable[SpreadConstraint], template: PodTemplate, nodes: NodeTable, *, demanding: bool
) -> Rules:
    """What the constraints mean on these nodes."""
    listed = tuple(constraints)
    hard = tuple(each for each in listed if each.hard)
    soft = tuple(each for each in listed if not each.hard)
    return Rules(
        tuple(_rule(each, template, nodes, hard) for each in hard),
        tuple(_rule(each, template, nodes, soft if demanding else ()) for each in soft),
        demanding,
        _lacking(soft, nodes) if demanding else None,
        (),
    )


def _lacking(soft: tuple[SpreadConstraint, ...], nodes: NodeTable) -> Mask | None:
    lacking = np.zeros(len(nodes), dtype=np.bool_)
    for constraint in soft:
        lacking |= nodes.labels.domains(constraint.topology_key).of_node < 0
    return lacking if lacking.any() else None


def _rule(
    constraint: SpreadConstraint, template: PodTemplate, nodes: NodeTable, together: tuple[SpreadConstraint, ...]
) -> Rule:
    """`together`: pods count only where a node has the keys of all of these."""
    domains = nodes.labels.domains(constraint.topology_key)
    eligible = _eligible(constraint, template, nodes, tuple(sorted({each.topology_key for each in together})))
    counted = np.zeros(domains.count, dtype=np.bool_)
    counted[domains.of_node[(domains.of_node >= 0) & eligible]] = True
    number = int(np.count_nonzero(counted))
    namespace, selector = template.namespace, constraint.selector
    weight = _weight(namespace, selector)
    asked = (NAME, namespace, selector)
    return Rule(
        constraint,
        Question(Key(*asked, constraint.topology_key), constraint.topology_key, weight, eligible),
        Question(Key(*asked, EACH_NODE), EACH_NODE, weight),
        domains,
        None if number == domains.count else counted,
        number,
    )


def _eligible(constraint: SpreadConstraint, template: PodTemplate, nodes: NodeTable, keys: tuple[str, ...]) -> Mask:
    """(nodes,): those whose pods count, by the keys that they must have and the constraint's policies."""
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
            counts &= wanted_nodes(template, nodes)
        if constraint.honors_taints:
            counts &= nodes.where_taints(lambda taints: untolerated(taints, template.tolerations) is None)
        return counts

    return nodes.static(key, found)


def _weight(namespace: str, selector: Selector) -> Weight:
    """1 for a pod that is meant. As upstream, a selector without requirements counts none (countPodsMatchSelector)."""

    def weight(pod: PodInfo) -> int:
        if pod.namespace != namespace or pod.terminating or not selector.requirements:
            return 0
        return int(selector.matches(pod.labels))

    return weight
