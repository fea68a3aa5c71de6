"""Placing a run of equal pods at once, exactly as one after the other.

For every node the totals of the first, second, .. further pod are worked out, in the plugins' own vector form, on a
snapshot in which each node appears several times, each time with one more pod. One after the other, a pod takes the
highest first entry; taking it uncovers the node's next one. Since an entry cannot be reached before those in front of
it, what counts is the least total up to it: sorting all entries by that, then by node, then by depth, gives the very
sequence of the greedy choice with ties to the first node.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from situate.framework.class_cache.pod_class import PodClass
from situate.framework.class_cache.pod_class_cache import Classes
from situate.framework.class_cache.static_scores import Totals
from situate.framework.pod.pods import PodInfo
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.snapshot import Snapshot

_SLACK: Final = 16
"""Scores are whole numbers, so that a node may take so many pods before it is not the best any more."""
_ENTRIES: Final = 2**20
"""Entries of one run, so that memory stays bounded: some 10 bytes each."""
_TOGETHER: Final = 2**13
"""Entries that are worked out together: their columns stay in the processor's cache, which is twice as fast."""


_FEW: Final = 16
"""So many of the best are found sooner one after the other than by sorting all."""


def place_run(classes: Classes, known: PodClass, pod: PodInfo, snapshot: Snapshot, count: int) -> Indices:
    """The nodes of the next pods like `pod`, in their order: at most `count`, none if none will do.

    It may end early, where a placement changes what others are compared with, or where a node may have room for more
    than was looked at; whoever calls goes on with another run from there.
    """
    nodes = _candidates(known, count)
    if not len(nodes):
        return nodes
    depth = max(1, min(count, 5 * count // (4 * len(nodes)) + _SLACK, _ENTRIES // len(nodes)))
    totals = _totals(classes, known, pod, snapshot, nodes, depth)
    reached = np.minimum.accumulate(totals, axis=1).ravel()
    order = np.argsort(-reached, kind="stable")[:count]
    order = order[reached[order] >= 0]
    end = _end(order, totals, depth, known.decisive(nodes))
    return nodes[order[:end] // depth]


def _candidates(known: PodClass, count: int) -> Indices:
    """The nodes that may be among the first `count` choices, ascending.

    A node is not chosen before all that were better from the start have been: those are enough.
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


def _totals(classes: Classes, known: PodClass, pod: PodInfo, snapshot: Snapshot, nodes: Indices, depth: int) -> Totals:
    """(nodes, depth): the total for one more pod when 0, 1, .. further ones are there."""
    totals = np.empty((len(nodes), depth), dtype=known.total.dtype)
    step = max(1, _TOGETHER // depth)
    for begin in range(0, len(nodes), step):
        some = nodes[begin : begin + step]
        where = np.repeat(some, depth)
        further = np.tile(np.arange(depth, dtype=np.int64), len(some))
        view = snapshot.loaded(pod, where, further)
        totals[begin : begin + step] = classes.totals(known, pod, view, where).reshape(len(some), depth)
    return totals


def _end(order: Indices, totals: Totals, depth: int, decisive: Mask) -> int:
    """How many picks are certain: up to the first that leaves what was looked at, or makes a decisive node full."""
    last = order % depth == depth - 1
    following = np.minimum(order + 1, totals.size - 1)
    filled = ~last & (totals.ravel()[following] < 0) & decisive[order // depth]
    stops = np.flatnonzero(last | filled)
    return int(stops[0]) + 1 if len(stops) else len(order)
