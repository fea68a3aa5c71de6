"""The nodes where a volume can be used, by its node selector terms. Most terms name a node or a zone.

A volume on a node's own disk names that node. The nodes named by a term's values are therefore looked up, and only
these are checked. Results are cached as indices, because thousands of masks would be large.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from situate.framework.pod.node_selection import Term
from situate.framework.results.verdict import Indices
from situate.framework.snapshot.node_table import NodeTable
from situate.objects.kinds.pods import NodeSelectorRequirement
from situate.objects.selection.label_selectors import Selector

_CACHED_RESULTS_LIMIT: Final = 2**16
"""Number of cached results for one node table."""
_FEW: Final = 64
"""Up to this number, nodes are checked one by one."""
_OPERATORS: Final = {"in": "In", "notin": "NotIn", "exists": "Exists", "!": "DoesNotExist"}


def nodes_for_terms(terms: tuple[Term, ...] | None, nodes: NodeTable) -> Indices:
    """Return the nodes that one of the terms matches by its labels, ascending; None means all nodes.

    As upstream, terms about volumes get no node name, so a term with `metadata.name` matches no node.
    """
    if terms is None:
        return nodes.plan(("volume places", None), lambda: np.arange(len(nodes), dtype=np.intp))
    kept: dict[tuple[Term, ...], Indices] = nodes.plan(("volume places",), dict)
    known = kept.get(terms)
    if known is None:
        if len(kept) >= _CACHED_RESULTS_LIMIT:
            kept.clear()
        found = [_nodes_matching_term(term, nodes) for term in terms]
        known = found[0] if len(found) == 1 else np.unique(np.concatenate([_NONE, *found]))
        kept[terms] = known
    return known


def selected_nodes(selector: Selector, nodes: NodeTable) -> Indices:
    """Return the nodes that a label selector selects, ascending."""
    if selector.nothing:
        return _NONE
    if not selector.requirements:
        return nodes_for_terms(None, nodes)
    expressions = tuple(
        NodeSelectorRequirement(each.key, _OPERATORS[each.operator], tuple(sorted(each.values)))
        for each in selector.requirements
    )
    return nodes_for_terms((Term(expressions, ()),), nodes)


def _nodes_matching_term(term: Term, nodes: NodeTable) -> Indices:
    if not (term.expressions or term.fields) or not term.matches_name(""):
        return _NONE
    for expression in term.expressions:
        if expression.operator == "In":
            pointed_at = _nodes_with_value(expression, nodes)
            if len(pointed_at) <= _FEW:
                matching = [node for node in pointed_at.tolist() if term.matches_labels(nodes.labels.of(node))]
                return np.array(matching, dtype=np.intp)
    return np.flatnonzero(nodes.labels.where(term.keys, term.matches_labels))


def _nodes_with_value(expression: NodeSelectorRequirement, nodes: NodeTable) -> Indices:
    """Return the nodes whose label has one of the values."""
    domains = nodes.labels.domains(expression.key)
    number: Mapping[str, int] = (
        nodes.index
        if domains.own
        else nodes.plan(
            ("volume places", "domains", expression.key),
            lambda: {value: place for place, value in enumerate(domains.values)},
        )
    )
    wanted = sorted({number[value] for value in expression.values if value in number})
    if domains.own:
        return np.array(wanted, dtype=np.intp)
    return np.flatnonzero(np.isin(domains.of_node, wanted))


_NONE: Final = np.zeros(0, dtype=np.intp)
