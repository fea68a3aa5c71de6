"""Place a run of equal Pods at once, with the same result as one after the other.

For every node the totals of the first, second, .. further Pod are computed in the plugins' own vector form. The
snapshot for this lists each node several times, each time with one more Pod. Placed one after the other, a Pod takes
the highest first entry, and this makes the node's next entry available. An entry is only available after those before
it, so the lowest total up to it decides. The entries are sorted by that total, then node, then depth. This is exactly
the sequence of the greedy choice with ties to the first node.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from situate.framework.class_cache.pod_class import PodClass
from situate.framework.class_cache.pod_class_cache import PodClassCache
from situate.framework.class_cache.static_scores import Totals
from situate.framework.pod.pods import PodInfo
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.snapshot import Snapshot

_SLACK: Final = 16
"""Extra Pods per node to evaluate: scores are integers, so a node may take some Pods before another is better."""
_ENTRIES: Final = 2**20
"""Number of entries of one run, which bounds memory: about 10 bytes each."""
_ENTRIES_AT_ONCE: Final = 2**13
"""Number of entries computed together. Their columns fit the processor's cache, which is twice as fast."""


_FEW: Final = 16
"""Up to this number, the best nodes are found faster one after the other than by sorting all."""


def place_run(classes: PodClassCache, known: PodClass, pod: PodInfo, snapshot: Snapshot, count: int) -> Indices:
    """Return the nodes of the next Pods like `pod`, in order: at most `count`, none if no node is feasible.

    The run may end early: where a placement changes the normalisation of others, or where a node may have capacity
    beyond the evaluated depth. The caller continues with another run from there.
    """
    nodes = _candidates(known, count)
    if not len(nodes):
        return nodes
    depth = max(1, min(count, 5 * count // (4 * len(nodes)) + _SLACK, _ENTRIES // len(nodes)))
    totals = _totals(classes, known, pod, snapshot, nodes, depth)
    reached = np.minimum.accumulate(totals, axis=1).ravel()
    order = np.argsort(-reached, kind="stable")[:count]
    order = order[reached[order] >= 0]
    end = _count_certain_picks(order, totals, depth, known.are_decisive(nodes))
    return nodes[order[:end] // depth]


def _candidates(known: PodClass, count: int) -> Indices:
    """Return the nodes that can be among the first `count` choices, ascending.

    A node is chosen only after all nodes with a better first total, so these nodes are enough.
    """
    if count >= known.count:
        return known.feasible.nodes
    if count <= _FEW:
        left = known.total.copy()
        few: list[int] = []
        for _ in range(count):
            few.append(int(left.argmax()))
            left[few[-1]] = -1
        return np.array(sorted(few), dtype=np.intp)
    nodes = known.feasible.nodes
    ranked = np.argsort(-known.total[nodes], kind="stable")[:count]
    ranked.sort()
    return nodes[ranked]


def _totals(
    classes: PodClassCache, known: PodClass, pod: PodInfo, snapshot: Snapshot, nodes: Indices, depth: int
) -> Totals:
    """Return (nodes, depth): the total for one more Pod when 0, 1, .. further Pods are there."""
    totals = np.empty((len(nodes), depth), dtype=known.total.dtype)
    step = max(1, _ENTRIES_AT_ONCE // depth)
    for begin in range(0, len(nodes), step):
        some = nodes[begin : begin + step]
        where = np.repeat(some, depth)
        further = np.tile(np.arange(depth, dtype=np.int64), len(some))
        view = snapshot.with_further_pods(pod, where, further)
        totals[begin : begin + step] = classes.totals(known, pod, view, where).reshape(len(some), depth)
    return totals


def _count_certain_picks(order: Indices, totals: Totals, depth: int, decisive: Mask) -> int:
    """Return the number of certain picks.

    They end at the last evaluated entry of a node, or when a decisive node becomes full.
    """
    last = order % depth == depth - 1
    following = np.minimum(order + 1, totals.size - 1)
    filled = ~last & (totals.ravel()[following] < 0) & decisive[order // depth]
    stops = np.flatnonzero(last | filled)
    return int(stops[0]) + 1 if len(stops) else len(order)
