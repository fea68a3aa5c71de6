"""Whether a pod fits on a node, and how good the node is for it: Filter and Score (C19, C20).

One node at a time and plainly: the plugin answers for all nodes at once, and must agree with this. `kept` is what the
ledger holds on the node for others than this pod (B4); it counts as reserved. Left to the plugin: nodes that nobody
knows, statuses, counters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from situate.vm.model.node_accounting import with_exactly, with_pod
from situate.vm.model.pods_and_nodes import Node, Pod
from situate.vm.model.policy import Scoring
from situate.vm.model.resource_amounts import RESOURCES, Amounts


@dataclass(frozen=True, slots=True)
class Fit:
    """What came of trying a pod on a node."""

    fits: bool
    node: Node
    """With the pods that were proposed and the pod itself; to be dropped."""
    local_not_proposed: tuple[str, ...]
    """Uids of pods of ours that the scheduler does not think there, sorted."""
    proposed_not_local: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Score:
    points: int
    """0 to 100; 0 means that there is no room."""
    fractions: tuple[float, ...] | None
    """Of each resource, before the least of them counts; None where the node would be over its budget."""


def fit(node: Node, proposed: Iterable[Pod], pod: Pod, kept: Amounts | None = None) -> Fit:
    """The pod beside exactly those that the scheduler proposes (C19).

    Pods that the node knows keep what it knows of them. Those of ignored namespaces count here (C28); the watermark
    does not.
    """
    there = {each.uid: node.pods.get(each.uid, each) for each in proposed}
    tried = with_pod(with_exactly(node, there.values()), pod)
    return Fit(
        not over_budget(tried, kept),
        tried,
        tuple(sorted(node.pods.keys() - there.keys())),
        tuple(sorted(there.keys() - node.pods.keys())),
    )


def over_budget(node: Node, kept: Amounts | None = None) -> bool:
    return node.over_budget if kept is None else (node.reserved + kept).exceeds(node.total)


def score(node: Node, pod: Pod, most: Amounts, scoring: Scoring, kept: Amounts | None = None) -> Score:
    """Of the node with the pod added (C20). `most` is `largest` of all nodes."""
    tried = with_pod(node, pod)
    if over_budget(tried, kept):
        return Score(0, None)
    used = tried.reserved if kept is None else tried.reserved + kept
    fractions = tuple(
        usage_score(reserved / total, scoring) * (total / biggest)
        for reserved, total, biggest in zip(used, tried.total, most, strict=True)
        if total
    )
    return Score(int(100 * min(fractions, default=0.0)), fractions)


def usage_score(x: float, scoring: Scoring) -> float:
    """f of C20, for a share of 0 to 1: rising to 1 at the peak, and falling from there."""
    low, high, peak = scoring.min_usage_score, scoring.max_usage_score, scoring.score_peak
    if x < peak:
        return low + (1 - low) / peak * x
    if x == peak:
        return 1.0
    return high + (1 - high) / (1 - peak) * (1 - x)


def largest(nodes: Iterable[Node], resources: int = len(RESOURCES)) -> Amounts:
    """The largest Total of each resource; with nodes that have left it falls (D17)."""
    most = Amounts.zero(resources)
    for node in nodes:
        most = most.most(node.total)
    return most
