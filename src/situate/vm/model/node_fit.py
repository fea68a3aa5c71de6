"""Evaluate one node for a Pod: Filter and Score.

The code handles one node at a time, in plain form (C19, C20). The plugin evaluates all nodes at once and must agree
with it. `kept` is the amount that the ledger holds on the node for others than this Pod (B4). It counts as reserved.
The plugin handles unknown nodes, statuses and counters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from situate.vm.config.settings import Scoring
from situate.vm.model.node_accounting import with_pod, with_pods
from situate.vm.model.pods_and_nodes import Node, Pod
from situate.vm.model.resource_amounts import RESOURCES, Amounts


@dataclass(frozen=True, slots=True)
class Fit:
    """The result of trying a Pod on a node."""

    fits: bool
    node: Node
    """The node with the proposed Pods and the Pod itself. The caller drops it."""
    local_not_proposed: tuple[str, ...]
    """Sorted UIDs of Pods that the ledger has on the node and the scheduler does not propose."""
    proposed_not_local: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Score:
    points: int
    """0 to 100. 0: the Pod does not fit."""
    fractions: tuple[float, ...] | None
    """One score for each resource; the least of them counts. None if the node would be over budget."""


def fit(node: Node, proposed: Iterable[Pod], pod: Pod, kept: Amounts | None = None) -> Fit:
    """Try the Pod on the node together with exactly the Pods that the scheduler proposes.

    Pods that the node knows count with their amounts in the ledger. Pods of ignored namespaces count (C28). The
    watermark does not count.
    """
    there = {each.uid: node.pods.get(each.uid, each) for each in proposed}
    tried = with_pod(with_pods(node, there.values()), pod)
    return Fit(
        not is_over_budget(tried, kept),
        tried,
        tuple(sorted(node.pods.keys() - there.keys())),
        tuple(sorted(there.keys() - node.pods.keys())),
    )


def is_over_budget(node: Node, kept: Amounts | None = None) -> bool:
    return node.over_budget if kept is None else (node.reserved + kept).exceeds(node.total)


def score(node: Node, pod: Pod, most: Amounts, scoring: Scoring, kept: Amounts | None = None) -> Score:
    """Return the score of the node with the Pod added. `maximum` is `largest_total` of all nodes."""
    tried = with_pod(node, pod)
    if is_over_budget(tried, kept):
        return Score(0, None)
    used = tried.reserved if kept is None else tried.reserved + kept
    fractions = tuple(
        usage_score(reserved / total, scoring) * (total / biggest)
        for reserved, total, biggest in zip(used, tried.total, most, strict=True)
        if total
    )
    return Score(int(100 * min(fractions, default=0.0)), fractions)


def usage_score(x: float, scoring: Scoring) -> float:
    """Return f(x) for a share from 0 to 1. f rises to 1 at the peak and falls after it."""
    low, high, peak = scoring.min_usage_score, scoring.max_usage_score, scoring.score_peak
    if x < peak:
        return low + (1 - low) / peak * x
    if x == peak:
        return 1.0
    return high + (1 - high) / (1 - peak) * (1 - x)


def largest_total(nodes: Iterable[Node], resources: int = len(RESOURCES)) -> Amounts:
    """Return the largest Total of each resource. It falls when large nodes leave."""
    most = Amounts.zero(resources)
    for node in nodes:
        most = most.maximum(node.total)
    return most
